use proptest::prelude::*;

use super::*;
use crate::facts::Tone;

const WINDOW: Window = Window { width: 20, height: 5 };

fn line(text: impl Into<String>) -> StoryLine {
    StoryLine { text: text.into(), tone: Tone::Plain }
}

fn shown(text: &ScrollText, window: Window) -> Vec<String> {
    text.visible(window).into_iter().map(|line| line.text).collect()
}

fn numbered(count: usize) -> ScrollText {
    let mut text = ScrollText::following(2);
    (0..count).for_each(|number| text.push(&line(format!("entry {number}"))));
    text
}

#[test]
fn the_end_is_followed_until_one_scrolls_up() {
    let mut text = numbered(9);
    assert_eq!(shown(&text, WINDOW)[4], "entry 8");
    text.scroll(Direction::Down, 3, WINDOW);
    assert!(text.is_following());
    text.scroll(Direction::Up, 1, WINDOW);
    assert!(!text.is_following());
    let before = shown(&text, WINDOW);
    assert_eq!(before[4], "entry 7");
    (0..100).for_each(|number| text.push(&line(format!("new {number}"))));
    assert_eq!((shown(&text, WINDOW), text.unread()), (before, 100));
    assert!(!text.follow());
    assert_eq!((shown(&text, WINDOW)[4].as_str(), text.unread()), ("new 99", 0));
}

#[test]
fn what_fits_has_nothing_to_scroll_to() {
    let mut text = numbered(3);
    text.scroll(Direction::Up, 10, WINDOW);
    assert!(text.is_following());
}

#[test]
fn a_width_and_back_again_shows_the_same() {
    let mut text = ScrollText::following(2);
    (0..9).for_each(|number| text.push(&line(format!("{number} some words that are folded"))));
    text.scroll(Direction::Up, 5, WINDOW);
    let before = shown(&text, WINDOW);
    for width in [80, 8, 33] {
        let other = shown(&text, Window { width, ..WINDOW });
        let word = before[0].split_whitespace().next().unwrap();
        assert!(other[0].contains(word), "{before:?} and at {width} {other:?}");
    }
    assert_eq!(shown(&text, WINDOW), before);
}

#[test]
fn memory_is_bounded_also_for_who_reads_the_oldest() {
    let mut text = numbered(MOST_ENTRIES + 7);
    assert_eq!(text.entries.len(), MOST_ENTRIES);
    text.go_to_start();
    let before = shown(&text, WINDOW);
    assert_eq!(before[0], "entry 7");
    (0..3 * MOST_ENTRIES).for_each(|number| text.push(&line(format!("new {number}"))));
    assert_eq!(shown(&text, WINDOW), before);
    assert_eq!(text.entries.len(), 2 * MOST_ENTRIES);
    assert!(text.follow(), "what was dropped has to be read again");
    // Further down the oldest make room.
    let mut text = numbered(MOST_ENTRIES);
    text.scroll(Direction::Up, 10, WINDOW);
    let before = shown(&text, WINDOW);
    (0..MOST_ENTRIES / 2).for_each(|number| text.push(&line(format!("new {number}"))));
    assert_eq!((shown(&text, WINDOW), text.entries.len()), (before, MOST_ENTRIES));
}

#[test]
fn a_search_goes_round_and_shows_what_it_finds() {
    let mut text = numbered(50);
    assert!(!text.search("ENTRY 3", WINDOW), "capitals count where there are any");
    assert!(text.search("try 3", WINDOW));
    assert!(shown(&text, WINDOW).contains(&"entry 3".to_owned()));
    for expected in ["entry 30", "entry 31"] {
        assert!(text.search_next(Direction::Down, WINDOW));
        assert!(shown(&text, WINDOW).contains(&expected.to_owned()), "{:?}", shown(&text, WINDOW));
    }
    for expected in ["entry 30", "entry 3", "entry 39"] {
        assert!(text.search_next(Direction::Up, WINDOW));
        assert!(shown(&text, WINDOW).contains(&expected.to_owned()), "{:?}", shown(&text, WINDOW));
    }
    assert!(!text.search("nowhere", WINDOW) && !text.search("", WINDOW));
}

proptest! {
    /// Only scrolling changes what is at the top, once the end is left.
    #[test]
    fn what_one_reads_stays(
        texts in proptest::collection::vec("[a-d ]{0,70}", 6..40),
        up in 1..60_usize,
        news in proptest::collection::vec((0..3_usize, 1..90_usize, 1..30_usize), 1..20),
    ) {
        let mut text = ScrollText::following(4);
        texts.into_iter().for_each(|own| text.push(&line(own)));
        text.scroll(Direction::Up, up, WINDOW);
        prop_assume!(!text.is_following());
        let before = shown(&text, WINDOW);
        for (kind, width, height) in news {
            match kind {
                0 => (0..height).for_each(|_| text.push(&line("news"))),
                1 => drop(text.visible(Window { width, height })),
                _ => text.scroll(Direction::Down, 0, Window { width, height }),
            }
            let now = shown(&text, WINDOW);
            prop_assert_eq!(&now[..before.len()], &before[..]);
        }
    }
}
