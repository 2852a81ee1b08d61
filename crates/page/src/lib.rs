//! The documents of a question as one HTML file, and a type's layout as an SVG picture.
//!
//! [`html`] puts a [`Page`] (docs/reference/json/page.md) into the asset that `web/` builds:
//! styles, program and data in one file that opens from disk and uses no network. Nothing is
//! computed here: the page's program reads the documents that `--json` prints.

mod answered;
mod document;
mod headline;
mod svg;
mod types;
mod whole;

use linemate_answers::Page;
use linemate_text::json_escaped;

pub use answered::{About, Answered, Frame};
pub use document::{shorten, with_narrowed};
pub use svg::{Heat, svg};
pub use types::{detailed, page_type};
pub use whole::page;

/// What `make page` builds from `web/`.
const ASSET: &str = include_str!("../asset/page.html");
/// Where the data goes.
const DATA: &str = "<!--linemate:data-->";

/// The page as a file.
///
/// Names in the data can contain anything. JSON inside a `script` element ends at `</script`, and
/// `<!--` changes how the rest is read, so every `<`, `>` or `&` of the data is escaped; control
/// characters and those that change the writing direction are escaped as in all JSON of the
/// command.
///
/// # Errors
/// None that a page can cause.
pub fn html(page: &Page) -> Result<String, serde_json::Error> {
    let json = serde_json::to_string(page)?;
    let mut data = String::with_capacity(json.len() + json.len() / 16);
    for c in json_escaped(&json).chars() {
        match c {
            '<' => data.push_str("\\u003c"),
            '>' => data.push_str("\\u003e"),
            '&' => data.push_str("\\u0026"),
            c => data.push(c),
        }
    }
    Ok(ASSET.replacen(DATA, &data, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_ends_the_data() {
        let hostile = "</script><script>alert(1)</script><!--<b>&amp;\u{1b}[2J\u{202e}\u{2028}";
        let page = Page {
            title: hostile.to_owned(),
            ..Page::default()
        };
        let file = html(&page).unwrap_or_default();
        let (before, after) = ASSET.split_once(DATA).unwrap_or_default();
        let data = file
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after));
        let data = data.unwrap_or_default();
        for unsafe_text in ["<", ">", "&", "\u{1b}", "\u{202e}", "\u{2028}"] {
            assert!(!data.contains(unsafe_text), "{unsafe_text:?} in {data}");
        }
        let read: serde_json::Value = serde_json::from_str(data).unwrap_or_default();
        assert_eq!(read["title"], hostile);
    }

    #[test]
    fn the_asset_has_one_place_for_the_data_and_no_address() {
        assert_eq!(ASSET.matches(DATA).count(), 1);
        // Namespaces are names, not addresses.
        let asset = ASSET.replace("http://www.w3.org/", "");
        for address in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!asset.contains(address), "{address} in the asset");
        }
    }
}
