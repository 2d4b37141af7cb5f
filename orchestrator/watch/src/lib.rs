//! Shows runs on a whole terminal and turns keys into requests.
//! Must not know journals or how runs are decided: what it shows comes in as [`Update`]s, what people want goes out as
//! [`Request`]s. [`WatchState`] is the pure part: keys and updates change it, [`draw`] shows it.

mod backend;
mod dialog;
mod facts;
mod iteration_list;
mod key;
mod key_parser;
mod panes;
mod run_list;
mod screen;
mod scroll_text;
mod state;
mod terminal;
mod text_input;

pub use dialog::LimitCheck;
pub use facts::{
    IterationFacts, LimitFacts, Phase, Request, RequestedControl, RunFacts, RunListItem, StoryLine,
    Tone, Update, VerdictFacts, VerdictWord,
};
pub use key::Key;
pub use screen::{Theme, draw};
pub use state::WatchState;
pub use terminal::{TerminalEvent, TerminalSession};
