//! The HTML page: harness 13, case 13.

mod example;

use std::fs;
use std::path::Path;

use example::Example;
use hoistway_report::page::html;

/// Writes the page to where a reader may look at it (`CARGO_TARGET_TMPDIR`), and gives it back.
fn page(name: &str, example: &Example) -> String {
    let page = html(&example.results());
    fs::write(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name), &page).unwrap();
    page
}

/// 13: nothing is fetched: the only address in the file is the one in the text of the environment.
#[test]
fn t13_the_page_refers_to_nothing_outside() {
    let page = page("several.html", &Example::new(5, &[1, 2, 4, 8], 3));
    assert_eq!(page.matches("http").count(), 1);
    assert!(
        page.contains("<dd>hoistway test model:ssd --group gold,weight=400 &lt;&amp;&gt; &quot;quoted&quot; http://")
    );
    for foreign in ["src=", "url(//", "@import", "<link", "<iframe"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

/// 13: it needs no scripts, and its charts are inline.
#[test]
fn t13_the_page_has_charts_and_no_scripts() {
    let page = page("one.html", &Example::new(5, &[4], 1));
    assert!(!page.contains("<script") && !page.contains("onclick"));
    assert_eq!(page.matches("<svg").count(), 4, "throughput, shares, latency, time");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
}

/// Every element that is opened is closed, in order.
#[test]
fn the_markup_is_well_formed() {
    for example in [Example::new(5, &[1, 8], 2), Example::new(1, &[1], 1)] {
        let page = html(&example.results());
        let body = page.split_once("<body>").unwrap().1.split_once("</body>").unwrap().0;
        let mut open: Vec<&str> = Vec::new();
        for tag in body.split('<').skip(1).map(|rest| rest.split_once('>').unwrap().0) {
            let name = tag.trim_start_matches('/').split([' ', '\n']).next().unwrap();
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name), "near <{tag}>");
            } else if !tag.ends_with('/') && name != "br" {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
    }
}

/// The title says what was measured, and every scheduler is named beside its curve.
#[test]
fn the_page_names_what_was_measured() {
    let page = html(&Example::new(5, &[1, 2], 2).results());
    assert!(page.contains("<h1>How 5 schedulers divide model:ssd among 3 groups</h1>"));
    for name in ["none", "mq-deadline", "cfq@2.6.36 slice_idle=8", "bfq low_latency=0", "wfq"] {
        assert!(page.matches(name).count() >= 5, "{name}");
    }
    // 400 of 700 are due to gold
    assert!(page.contains(">57.1%</text>") && page.contains(">gold</text>"));
    assert!(page.contains("<b><code>low_latency=0*</code></b>"));
}
