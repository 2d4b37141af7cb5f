//! Pull requests, which GitLab calls merge requests.

use crate::client::HostClient;
use crate::commands::PrintedPullRequest;
use crate::error::ForgeError;

/// The longest text that hosts take, in bytes.
const LONGEST_BODY: usize = 60_000;

/// An open pull request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    number: u64,
    /// Its address.
    pub url: String,
}

/// What a branch is proposed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The branch, which is at the host.
    pub branch: String,
    /// The title, one line.
    pub title: String,
    /// The text, in Markdown.
    pub body: String,
}

impl HostClient {
    /// Returns the open pull request of a branch.
    fn find_pull_request(&self, branch: &str) -> Result<Option<PullRequest>, ForgeError> {
        let read = |text: &[u8]| serde_json::from_slice::<Vec<PrintedPullRequest>>(text);
        let found = self.read(&self.host().list_pull_requests(branch), read)?;
        let found = found.into_iter().next();
        Ok(found.map(|found| PullRequest { number: found.number, url: found.url }))
    }

    /// Opens a draft pull request for a branch. If there is an open one, its text is written anew.
    ///
    /// # Errors
    /// The host was not reached, or refuses it.
    pub fn propose(&self, new: &NewPullRequest) -> Result<PullRequest, ForgeError> {
        let end = new.body.floor_char_boundary(LONGEST_BODY);
        let body = new.body.get(..end).unwrap_or_default();
        if let Some(found) = self.find_pull_request(&new.branch)? {
            let (arguments, stdin) = self.host().edit_pull_request(found.number, body);
            return self.ask(&arguments, stdin).map(|_| found);
        }
        let (arguments, stdin) = self.host().create_pull_request(&new.branch, &new.title, body);
        let printed = self.ask(&arguments, stdin)?;
        // What is printed beside the address differs.
        match self.find_pull_request(&new.branch)? {
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
