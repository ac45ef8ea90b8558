//! How issuers stand in tables, what their pages say, and that nobody else's words become part of the page.

mod document;
mod page;
mod scene;
mod stands;
