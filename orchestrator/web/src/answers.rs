//! What was answered to controls, so that one that is sent again gets the same answer.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Answers that are kept.
const MOST: usize = 1024;

/// What was answered to a control that took effect.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The control with its arguments.
    pub(crate) request: String,
    /// What was said of it.
    pub(crate) text: String,
}

/// A control by its run and key; held while it is carried out, so that the same one waits for its answer.
pub(crate) type Place = Arc<Mutex<Option<Answer>>>;

/// The answers, by the run and the key of the control.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    places: HashMap<(String, String), Place>,
    order: VecDeque<(String, String)>,
}

impl Answers {
    /// Returns the place of the answer to this control.
    pub(crate) fn place(&self, run: &str, key: &str) -> Place {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let id = (run.to_owned(), key.to_owned());
        if let Some(place) = kept.places.get(&id) {
            return place.clone();
        }
        if kept.order.len() >= MOST
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.places.remove(&oldest);
        }
        kept.order.push_back(id.clone());
        kept.places.entry(id).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answers_of_a_server_are_bounded() {
        let answers = Answers::default();
        let answer = Answer { request: "resume {}".to_owned(), text: "done".to_owned() };
        *answers.place("r", "0").lock().unwrap() = Some(answer);
        assert!(answers.place("r", "0").lock().unwrap().is_some());
        assert!(answers.place("other", "0").lock().unwrap().is_none());
        for key in 0..MOST {
            answers.place("many", &key.to_string());
        }
        assert!(answers.place("r", "0").lock().unwrap().is_none());
        assert_eq!(answers.kept.lock().unwrap().places.len(), MOST);
    }
}
