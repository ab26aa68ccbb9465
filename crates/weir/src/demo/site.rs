//! What the demo's origins serve: pages, scripts, data and pictures.

use std::fmt::Write as _;

use crate::demo::images::{self, Color};

/// Who answers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Persona {
    pub name: &'static str,
    pub color: Color,
}

/// The three of them.
pub(crate) const PERSONAS: [Persona; 3] = [
    Persona { name: "coral", color: [226, 88, 62] },
    Persona { name: "jade", color: [28, 150, 108] },
    Persona { name: "indigo", color: [74, 88, 205] },
];

/// An answer.
#[derive(Debug)]
pub(crate) struct Page {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
    /// The answer is held back this long, for trying timeouts and slow origins.
    pub delay_ms: u64,
}

/// Entries of `/api/items`.
const ITEMS: usize = 500;

impl Persona {
    /// The colour as style sheets write it.
    fn hex(&self) -> String {
        let [r, g, b] = self.color;
        format!("#{r:02x}{g:02x}{b:02x}")
    }

    /// What a path shows; `count` numbers this origin's answers.
    pub(crate) fn page(&self, path: &str, count: u32) -> Page {
        const HTML: &str = "text/html; charset=utf-8";
        const JSON: &str = "application/json";
        const SVG: &str = "image/svg+xml";
        let ok = |content_type, body: Vec<u8>| Page { status: 200, content_type, body, delay_ms: 0 };
        match path {
            "/" => ok(HTML, self.fill(include_str!("site/index.html"), count)),
            "/style.css" => ok("text/css; charset=utf-8", include_bytes!("site/style.css").to_vec()),
            "/app.js" => ok("text/javascript; charset=utf-8", include_bytes!("site/app.js").to_vec()),
            "/logo.svg" => ok(SVG, images::logo(self.color).into_bytes()),
            "/landscape.svg" => ok(SVG, images::landscape(self.color, count).into_bytes()),
            "/picture.png" => ok("image/png", images::plasma(self.color, count)),
            "/api/status" => ok(JSON, self.status(count).into_bytes()),
            "/api/items" => ok(JSON, self.items().into_bytes()),
            "/slow" => Page { delay_ms: 2_000, ..ok(HTML, self.message("That took two seconds", count)) },
            "/health" => ok("text/plain", b"ok\n".to_vec()),
            _ => Page { status: 404, ..ok(HTML, self.message("There is nothing here", count)) },
        }
    }

    fn fill(&self, template: &str, count: u32) -> Vec<u8> {
        let filled = template.replace("{NAME}", self.name).replace("{COLOR}", &self.hex());
        filled.replace("{COUNT}", &count.to_string()).into_bytes()
    }

    fn message(&self, text: &str, count: u32) -> Vec<u8> {
        const TEMPLATE: &str = "<!doctype html><meta charset=utf-8><title>Weir demo</title>\
            <link rel=stylesheet href=/style.css><body style='--accent: {COLOR}'><header>\
            <img src=/logo.svg alt='' width=56 height=56><div><h1>{TEXT}</h1>\
            <p>says <b class=who>{NAME}</b>. <a href='/'>Back to the start</a></p></div></header>\n";
        self.fill(&TEMPLATE.replace("{TEXT}", text), count)
    }

    fn status(&self, count: u32) -> String {
        format!("{{\"origin\":\"{}\",\"color\":\"{}\",\"count\":{count}}}\n", self.name, self.hex())
    }

    fn items(&self) -> String {
        const KINDS: [&str; 4] = ["gate", "sluice", "spillway", "turbine"];
        let mut text = String::from("[\n");
        for (number, kind) in KINDS.iter().cycle().take(ITEMS).enumerate() {
            let comma = if number + 1 < ITEMS { "," } else { "" };
            // Writing to a string cannot fail.
            writeln!(
                text,
                "  {{\"id\": {number}, \"kind\": \"{kind}\", \"name\": \"{kind} number {number}\", \"flow\": {}, \"origin\": \"{}\"}}{comma}",
                number * 7919 % 1000,
                self.name
            )
            .ok();
        }
        text.push_str("]\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path() {
        let check = |path: &str, status: u16, content_type: &str| {
            for persona in PERSONAS {
                let page = persona.page(path, 3);
                assert_eq!((page.status, page.content_type), (status, content_type), "{path}");
                assert!(!page.body.is_empty());
                let text = String::from_utf8_lossy(&page.body);
                assert!(
                    !text.contains("{NAME}") && !text.contains("{COLOR}") && !text.contains("{COUNT}"),
                    "{path}"
                );
            }
        };
        check("/", 200, "text/html; charset=utf-8");
        check("/style.css", 200, "text/css; charset=utf-8");
        check("/app.js", 200, "text/javascript; charset=utf-8");
        check("/logo.svg", 200, "image/svg+xml");
        check("/landscape.svg", 200, "image/svg+xml");
        check("/picture.png", 200, "image/png");
        check("/api/status", 200, "application/json");
        check("/api/items", 200, "application/json");
        check("/slow", 200, "text/html; charset=utf-8");
        check("/health", 200, "text/plain");
        check("/nowhere", 404, "text/html; charset=utf-8");
    }
}
