//! Makes a page from the JSON on standard input (docs/reference/json/page.md), for tests of pages
//! that no small recording gives.

use std::error::Error;
use std::io::{Read, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let mut json = String::new();
    std::io::stdin().read_to_string(&mut json)?;
    let page = serde_json::from_str(&json)?;
    std::io::stdout().write_all(linemate_page::html(&page)?.as_bytes())?;
    Ok(())
}
