//! Whatever is pressed, comes in or changes its size: nothing panics, and what one reads stays where it is.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Key(Key),
    Size(u16, u16),
    Story(usize),
    Runs(usize),
    Facts(usize),
    Text,
    Outcome(usize),
}

fn any_key() -> impl Strategy<Value = Key> {
    let others = [
        Key::Enter,
        Key::Escape,
        Key::Tab,
        Key::BackTab,
        Key::Backspace,
        Key::Delete,
        Key::Left,
        Key::Right,
        Key::Up,
        Key::Down,
        Key::PageUp,
        Key::PageDown,
        Key::Home,
        Key::End,
        Key::ClearLine,
        Key::Paste("a\nb日\u{202e}".to_owned()),
    ];
    prop_oneof![
        "[saplxdvfq/?jkgGnNyh 1日]".prop_map(|text| Key::Char(text.chars().next().unwrap())),
        proptest::sample::select(others.to_vec()),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any_key().prop_map(Step::Key),
        2 => (0..120_u16, 0..50_u16).prop_map(|(width, height)| Step::Size(width, height)),
        2 => (0..30_usize).prop_map(Step::Story),
        1 => (0..9_usize).prop_map(Step::Runs),
        1 => (0..40_usize).prop_map(Step::Facts),
        1 => Just(Step::Text),
        1 => (0..400_usize).prop_map(Step::Outcome),
    ]
}

fn news(viewer: &mut Viewer, step: &Step, number: usize) {
    match step {
        Step::Key(key) => {
            viewer.press(std::slice::from_ref(key));
        }
        Step::Size(width, height) => viewer.resize(*width, *height),
        Step::Story(count) => viewer.update(story(number..number + count, false)),
        Step::Runs(count) => {
            let all = runs();
            viewer.update(Update::Runs(all.into_iter().skip(*count).collect()));
        }
        Step::Facts(count) => {
            let count = u64::try_from(*count).unwrap();
            let facts = (count > 0).then(|| {
                let phase = if count.is_multiple_of(2) { Phase::Running } else { Phase::Paused };
                let iterations = (1..count).map(iteration).collect();
                let is_pause_requested = phase == Phase::Paused;
                Box::new(RunFacts { phase, iterations, is_pause_requested, ..facts() })
            });
            viewer.update(Update::Facts { key: key(0), facts });
        }
        Step::Text => {
            let lines = (0..50).map(|at| StoryLine {
                text: format!("line {at}\twith 日本語\u{301}"),
                tone: Tone::Plain,
            });
            viewer.update(Update::Text { title: "page".to_owned(), lines: lines.collect() });
        }
        Step::Outcome(length) => viewer.update(Update::Outcome(Ok("word ".repeat(*length)))),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn nothing_panics(steps in proptest::collection::vec(any_step(), 1..60)) {
        let mut viewer = Viewer::at_work(80, 24);
        for (number, step) in steps.iter().enumerate() {
            news(&mut viewer, step, 40 + number * 30);
            viewer.lines();
        }
    }

    /// Once one has scrolled up, what comes in and sizes to and fro move nothing.
    #[test]
    fn what_one_reads_does_not_move(
        up in 1..30_usize,
        steps in proptest::collection::vec(any_step(), 1..30),
    ) {
        let mut viewer = Viewer::at_work(80, 24);
        viewer.press(&vec![Key::Up; up]);
        let before = viewer.story();
        let is_news = |step: &&Step| {
            matches!(step, Step::Size(..) | Step::Story(_) | Step::Text | Step::Facts(1..))
        };
        for (number, step) in steps.iter().filter(is_news).enumerate() {
            news(&mut viewer, step, 40 + number * 30);
            viewer.lines();
            viewer.resize(80, 24);
            prop_assert_eq!(viewer.story(), before.clone());
        }
    }
}
