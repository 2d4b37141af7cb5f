use proptest::prelude::*;
use ralph_orchestrator_contract::Verdict;
use serde_json::json;

use crate::{Place, gradient, png};

fn refusal(name: &str, content: impl AsRef<[u8]>) -> String {
    let place = Place::new();
    place.write(name, content);
    place.refusal(json!({"min_files": 1, "extensions": ["png", "txt", "json", "log", "jpg"]}))
}

#[test]
fn what_is_no_evidence() {
    let deep = "[".repeat(100_000);
    let truncated = gradient(64, 64);
    let damaged: Vec<u8> = {
        let mut image = gradient(64, 64);
        let middle = image.len() / 2;
        image[middle] ^= 0xff;
        image
    };
    let table: &[(&str, &[u8], &str)] = &[
        ("a.txt", b"", "is empty"),
        ("a.png", b"", "is empty"),
        ("a.txt", b" \r\n\t", "only white space"),
        ("a.txt", "\u{200b}\u{feff}\u{a0}".as_bytes(), "only white space"),
        ("a.txt", b"\xff\xfeo\0k\0", "not UTF-8"),
        ("a.txt", b"ok\0", "NUL"),
        ("a.log", b"\x80", "not UTF-8"),
        ("a.jpg", b"\n\n", "only white space"),
        ("a.json", b"  ", "only white space"),
        (
            "a.json",
            b"<!DOCTYPE html><h1>502 Bad Gateway</h1>",
            "not JSON: expected value at line 1",
        ),
        ("a.json", b"{\"a\": 1,}", "not JSON"),
        ("a.json", b"{} {}", "not JSON: trailing characters"),
        ("a.json", b"{\"a\": NaN}", "not JSON"),
        ("a.json", b"\"\xff\"", "not UTF-8"),
        ("a.json", deep.as_bytes(), "deeper than 128"),
        ("a.png", b"this is a screenshot", "not a PNG"),
        ("a.png", &truncated[..truncated.len() / 2], "not a PNG"),
        ("a.png", &truncated[..truncated.len() - 12], "not a PNG"),
        ("a.png", &truncated[..33], "not a PNG"),
        ("a.png", &truncated[..8], "not a PNG"),
        ("a.png", &damaged, "not a PNG"),
        ("a.png", &png(1, 1, |_, _| [1, 2, 3]), "only 1×1 pixels"),
        ("a.png", &png(100, 1, |_, _| [1, 2, 3]), "only 100×1 pixels"),
        ("a.png", &png(640, 480, |_, _| [255; 3]), "single colour"),
        ("A.PNG", &png(2, 2, |_, _| [0; 3]), "single colour"),
    ];
    for (name, content, part) in table {
        let why = refusal(name, content);
        assert!(why.contains(part), "{name}: {why}");
    }
}

#[test]
fn what_is_evidence() {
    let bom = "\u{feff}{\"status\": \"ok\"}";
    let grey = {
        let mut out = Vec::new();
        let mut encoder = png::Encoder::new(&mut out, 8, 2);
        encoder.set_color(png::ColorType::Grayscale);
        encoder.set_depth(png::BitDepth::One);
        encoder.write_header().unwrap().write_image_data(&[0xff, 0xfe]).unwrap();
        out
    };
    let table: &[(&str, &[u8])] = &[
        ("a.txt", b"x"),
        ("a.txt", "grün ✅".as_bytes()),
        ("a.b.TXT", b"x"),
        ("a.json", b"{}"),
        ("a.json", b"[[[]]]"),
        ("a.json", bom.as_bytes()),
        ("a.png", &gradient(2, 2)),
        ("a.png", &gradient(1000, 700)),
        ("a.png", &png(9, 9, |x, y| [u8::from(x == 8 && y == 8); 3])),
        ("a.png", &grey),
        ("a.jpg", b"\xff\xd8\xff"),
    ];
    for (name, content) in table {
        let place = Place::new();
        place.write(name, content);
        let extensions = json!(["png", ".TXT", "json", "jpg"]);
        assert_eq!(place.counted(json!({"min_files": 1, "extensions": extensions})), [*name]);
    }
}

#[test]
fn a_larger_image_may_be_demanded() {
    let place = Place::new();
    place.write("a.png", gradient(99, 200));
    let why = place.refusal(json!({"min_files": 1, "min_image_size": 100}));
    assert!(why.contains("99×200") && why.contains("at least 100×100"), "{why}");
}

/// The head of an image that says it has this size.
fn head(width: u32, height: u32) -> Vec<u8> {
    let mut chunk = b"IHDR".to_vec();
    chunk.extend(width.to_be_bytes());
    chunk.extend(height.to_be_bytes());
    chunk.extend([8, 6, 0, 0, 0]);
    let mut out = b"\x89PNG\r\n\x1a\n\0\0\0\x0d".to_vec();
    out.extend(&chunk);
    out.extend(crc32(&chunk).to_be_bytes());
    out.extend(b"\0\0\0\0IDAT");
    out.extend(crc32(b"IDAT").to_be_bytes());
    out
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    })
}

#[test]
fn an_enormous_image_is_not_decoded() {
    for (width, height) in [(100_000, 100_000), (0x7fff_ffff, 0x7fff_ffff), (8193, 8192)] {
        let why = refusal("a.png", head(width, height));
        assert!(why.contains("more than 64 Mi") || why.contains("not a PNG"), "{why}");
    }
    // Within the number of pixels, but a single row would need more memory than is granted.
    let why = refusal("a.png", head(64 << 20, 2));
    assert!(why.contains("more than 64 Mi") || why.contains("not a PNG"), "{why}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_damaged_image_never_breaks_the_validator(at in any::<prop::sample::Index>(), bits in 1..=255_u8) {
        let mut image = gradient(16, 16);
        let at = at.index(image.len());
        image[at] ^= bits;
        let place = Place::new();
        place.write("a.png", &image);
        let checked = !matches!(place.verdict(json!({"min_files": 1})), Verdict::Error { .. });
        prop_assert!(checked);
    }

    #[test]
    fn any_bytes_are_survived(
        content in prop::collection::vec(any::<u8>(), 0..300),
        name in "[a-z]{1,5}\\.(txt|png|json)",
    ) {
        let place = Place::new();
        place.write(name, &content);
        let checked = !matches!(place.verdict(json!({"min_files": 1})), Verdict::Error { .. });
        prop_assert!(checked);
    }
}
