//! Opens pull requests.

use crate::client::HostClient;
use crate::error::ForgeError;
use crate::pull_request::{NewPullRequest, PullRequest, RequestState};

/// What the titles of drafts begin with at GitLab.
const DRAFT: &str = "Draft: ";

impl HostClient {
    /// Returns the newest pull request of a branch: the open one, if there is one.
    ///
    /// # Errors
    /// The host was not reached, or refuses it.
    pub fn find_pull_request(&self, branch: &str) -> Result<Option<PullRequest>, ForgeError> {
        let read = |text: &[u8]| self.host().read_pull_requests(text);
        let found = self.read(&self.host().list_pull_requests(branch), read)?;
        let weight = |found: &PullRequest| (found.state == RequestState::Open, found.number);
        Ok(found.into_iter().max_by_key(weight))
    }

    /// Opens a draft pull request for a branch. If there is an open one, what it says of the work is written anew.
    ///
    /// # Errors
    /// The host was not reached, or refuses it.
    pub fn propose(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let find = || {
            let found = self.find_pull_request(&new.branch)?;
            Ok(found.filter(|found| found.state == RequestState::Open))
        };
        if let Some(found) = find()? {
            let title = change_title(&found.title, new);
            let body = new.text.render(&found.body);
            let (arguments, stdin) =
                self.host().edit_pull_request(found.number, title.as_deref(), &body);
            return self.ask(&arguments, stdin).map(|_| found);
        }
        let body = new.text.render("");
        let (arguments, stdin) = self.host().create_pull_request(&new.branch, &new.title, &body);
        let printed = self.ask(&arguments, stdin)?;
        // What is printed beside the address differs.
        match find()? {
            Some(found) => Ok(found),
            None => Err(ForgeError::Output {
                program: self.host().program(),
                command: "pull request".to_owned(),
                problem: format!(
                    "no pull request is open after {:?}",
                    String::from_utf8_lossy(&printed)
                ),
            }),
        }
    }
}

/// Returns the title that an open pull request is to have instead of its own; `None` if that stays.
fn change_title(title: &str, new: &NewPullRequest) -> Option<String> {
    // GitLab marks drafts so: without the mark it would be none any more.
    let (mark, plain) = match title.strip_prefix(DRAFT) {
        Some(plain) => (DRAFT, plain),
        None => ("", title),
    };
    let is_own = new.title_before.as_deref() == Some(plain);
    (is_own && new.title != plain).then(|| format!("{mark}{}", new.title))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pull_request_text::PullRequestText;

    #[test]
    fn a_title_of_a_person_and_the_mark_of_a_draft_stay() {
        let new = |before: Option<&str>| NewPullRequest {
            branch: "b".to_owned(),
            title: "2 items".to_owned(),
            title_before: before.map(str::to_owned),
            text: PullRequestText::default(),
        };
        let table = [
            ("One", Some("One"), Some("2 items")),
            ("Draft: One", Some("One"), Some("Draft: 2 items")),
            ("Mine", Some("One"), None),
            ("One", None, None),
            ("Draft: 2 items", Some("2 items"), None),
        ];
        for (title, before, expected) in table {
            assert_eq!(change_title(title, &new(before)).as_deref(), expected, "{title}");
        }
    }
}
