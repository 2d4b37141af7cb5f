//! Opens pull requests.

use crate::client::HostClient;
use crate::error::ForgeError;
use crate::pull_request::{NewPullRequest, PullRequest, RequestState};

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
            let is_own = new.title_before.as_ref() == Some(&found.title);
            let title = (is_own && new.title != found.title).then_some(new.title.as_str());
            let body = new.text.render(&found.body);
            let (arguments, stdin) = self.host().edit_pull_request(found.number, title, &body);
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
