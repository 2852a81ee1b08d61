//! The types' shapes: schemars' output, in the few forms that documents use.

use schemars::schema::{
    ArrayValidation, InstanceType, ObjectValidation, Schema, SchemaObject, SingleOrVec,
};

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Text,
    Integer,
    Number,
    Boolean,
    Null,
    Any,
    /// A string that is always this one.
    Word(String),
    /// A type that is declared.
    Named(String),
    List(Box<Shape>),
    Tuple(Vec<Shape>),
    /// An object whose keys are names.
    Map(Box<Shape>),
    Either(Vec<Shape>),
    Object(Vec<ObjectField>),
}

/// A key of an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ObjectField {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) shape: Shape,
    /// Whether it is left out if there is nothing to say.
    pub(super) absent: bool,
}

/// A type with a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) about: String,
    pub(super) shape: Shape,
    /// What each alternative of a choice means.
    pub(super) choices: Vec<(Shape, String)>,
}

impl Declared {
    pub(super) fn new(name: &str, schema: &Schema) -> Declared {
        Declared {
            name: name.to_owned(),
            about: about(schema),
            shape: shape(schema),
            choices: choices(schema),
        }
    }

    /// The names of the types that it mentions, in order.
    pub(super) fn parts(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.shape.name_into(&mut names);
        names
    }
}

impl Shape {
    fn name_into(&self, names: &mut Vec<String>) {
        match self {
            Shape::Named(name) => names.push(name.clone()),
            Shape::List(of) | Shape::Map(of) => of.name_into(names),
            Shape::Tuple(of) | Shape::Either(of) => of.iter().for_each(|one| one.name_into(names)),
            Shape::Object(fields) => fields.iter().for_each(|field| field.shape.name_into(names)),
            _ => {}
        }
    }

    /// Without null, and whether it can be that.
    pub(super) fn or_null(&self) -> (Shape, bool) {
        let Shape::Either(all) = self else {
            return (self.clone(), false);
        };
        let rest: Vec<Shape> = all
            .iter()
            .filter(|one| **one != Shape::Null)
            .cloned()
            .collect();
        let nullable = rest.len() < all.len();
        match <[Shape; 1]>::try_from(rest) {
            Ok([one]) => (one, nullable),
            Err(rest) => (Shape::Either(rest), nullable),
        }
    }
}

fn about(schema: &Schema) -> String {
    let Schema::Object(object) = schema else {
        return String::new();
    };
    let metadata = object.metadata.as_ref();
    metadata
        .and_then(|data| data.description.clone())
        .unwrap_or_default()
}

fn alternatives(object: &SchemaObject) -> &[Schema] {
    let sub = object.subschemas.as_ref();
    let found = sub.and_then(|sub| sub.one_of.as_ref().or(sub.any_of.as_ref()));
    found.map_or(&[], Vec::as_slice)
}

/// What the alternatives of an enumeration mean.
fn choices(schema: &Schema) -> Vec<(Shape, String)> {
    let Schema::Object(object) = schema else {
        return Vec::new();
    };
    let of = alternatives(object).iter();
    of.map(|one| (shape(one), about(one))).collect()
}

fn shape(schema: &Schema) -> Shape {
    let Schema::Object(object) = schema else {
        return Shape::Any;
    };
    if let Some(reference) = &object.reference {
        let name = reference.rsplit('/').next();
        return Shape::Named(name.unwrap_or_default().to_owned());
    }
    // A reference with a description.
    let all = object
        .subschemas
        .as_ref()
        .and_then(|sub| sub.all_of.as_deref());
    if let Some([one]) = all {
        return shape(one);
    }
    if let Some(fields) = object
        .object
        .as_deref()
        .filter(|of| !of.properties.is_empty())
    {
        return Shape::Object(all_fields(fields, alternatives(object)));
    }
    let either: Vec<Shape> = alternatives(object).iter().map(shape).collect();
    if !either.is_empty() {
        return Shape::Either(either);
    }
    if let Some(words) = &object.enum_values {
        let words = words.iter().filter_map(|word| word.as_str());
        return one_or_either(words.map(|word| Shape::Word(word.to_owned())).collect());
    }
    let types = match &object.instance_type {
        None => return Shape::Any,
        Some(SingleOrVec::Single(one)) => vec![**one],
        Some(SingleOrVec::Vec(types)) => types.clone(),
    };
    one_or_either(types.into_iter().map(|kind| plain(kind, object)).collect())
}

fn one_or_either(shapes: Vec<Shape>) -> Shape {
    match <[Shape; 1]>::try_from(shapes) {
        Ok([one]) => one,
        Err(several) => Shape::Either(several),
    }
}

fn plain(kind: InstanceType, object: &SchemaObject) -> Shape {
    match kind {
        InstanceType::Null => Shape::Null,
        InstanceType::Boolean => Shape::Boolean,
        InstanceType::Integer => Shape::Integer,
        InstanceType::Number => Shape::Number,
        InstanceType::String => Shape::Text,
        InstanceType::Array => object.array.as_deref().map_or(Shape::Any, array),
        InstanceType::Object => {
            let values = object.object.as_ref();
            let values = values.and_then(|of| of.additional_properties.as_deref());
            values.map_or(Shape::Any, |of| Shape::Map(Box::new(shape(of))))
        }
    }
}

fn array(array: &ArrayValidation) -> Shape {
    match &array.items {
        None => Shape::Any,
        Some(SingleOrVec::Vec(items)) => Shape::Tuple(items.iter().map(shape).collect()),
        Some(SingleOrVec::Single(item)) => match (array.min_items, array.max_items) {
            (Some(least), Some(most)) if least == most => {
                Shape::Tuple(vec![shape(item); most as usize])
            }
            _ => Shape::List(Box::new(shape(item))),
        },
    }
}

/// The keys of an object, and those of which it has one.
fn all_fields(object: &ObjectValidation, one_of: &[Schema]) -> Vec<ObjectField> {
    let mut all = fields(object, "");
    for alternative in one_of {
        if let Schema::Object(SchemaObject {
            object: Some(of), ..
        }) = alternative
        {
            let of = fields(of, &about(alternative)).into_iter();
            all.extend(of.map(|field| ObjectField {
                absent: true,
                ..field
            }));
        }
    }
    all
}

/// `otherwise`: the text for those without one.
fn fields(object: &ObjectValidation, otherwise: &str) -> Vec<ObjectField> {
    let of = object.properties.iter().map(|(name, schema)| {
        let shape = shape(schema);
        let is_set = matches!(schema, Schema::Object(of) if of.metadata.as_ref().is_some_and(|data| data.default.is_some()));
        let (_, nullable) = shape.or_null();
        let said = about(schema);
        ObjectField {
            name: name.clone(),
            about: if said.is_empty() { otherwise.to_owned() } else { said },
            absent: !object.required.contains(name) && !is_set && !nullable,
            shape,
        }
    });
    of.collect()
}
