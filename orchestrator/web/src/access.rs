//! Who may ask: a secret that is exchanged for a cookie, and the hosts and origins that requests may name.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use axum::http::{HeaderMap, Method, header};
use blake3::Hash;
use data_encoding::HEXLOWER;

/// Sessions that are kept; the oldest is ended by one more.
const MOST_SESSIONS: usize = 64;
/// Characters of the shortest passphrase.
const SHORTEST_PASSPHRASE: usize = 16;

/// The header of controls with the key of the session.
pub(crate) const SESSION_KEY: &str = "x-ralph-key";

/// What lets a person in. Only its digest is kept.
#[derive(Clone, Debug)]
pub struct Secret(Hash);

impl Secret {
    /// Takes a passphrase of a person's own.
    ///
    /// # Errors
    /// It is shorter than 16 characters.
    pub fn passphrase(text: &str) -> Result<Self, AccessError> {
        let text = text.trim_end_matches(['\r', '\n']);
        if text.chars().count() < SHORTEST_PASSPHRASE {
            return Err(AccessError::ShortPassphrase);
        }
        Ok(Self::digest(text))
    }

    fn digest(text: &str) -> Self {
        Self(blake3::hash(text.as_bytes()))
    }

    /// Compares in a time that does not depend on where the two differ.
    fn is(&self, text: &str) -> bool {
        self.0 == blake3::hash(text.as_bytes())
    }
}

/// Somebody who was let in, by the digests of two secrets.
#[derive(Debug)]
struct Session {
    cookie: Hash,
    /// Of what only the page knows. Browsers send a cookie to every port of a machine, so that whatever listens on
    /// another one, such as what an agent has started, may come to know it.
    key: Hash,
}

/// What somebody who is let in is given.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The value of the header `Set-Cookie`.
    pub(crate) cookie: String,
    /// What controls need besides the cookie.
    pub(crate) key: String,
}

/// Receives each new token, to tell it to the person who started the server.
type Announce = Box<dyn Fn(&str) + Send + Sync>;

/// Decides about requests.
///
/// A token of 256 random bits lets one browser in, once: browsers keep the addresses that they were given, token
/// included. Then there is a new one.
pub struct Access {
    token: Mutex<Secret>,
    announce: Announce,
    /// Lets in whoever knows it, as often as it is shown.
    passphrase: Option<Secret>,
    sessions: Mutex<VecDeque<Session>>,
    cookie: String,
    /// The values of the Host header that mean this server; `None` behind a proxy, which sees to that.
    hosts: Option<Vec<String>>,
}

impl Access {
    /// Returns who may ask a server at this address, which only programs of this machine reach. `announce` is given
    /// the first token at once.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn on_loopback(
        address: SocketAddr,
        passphrase: Option<Secret>,
        announce: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, AccessError> {
        let port = address.port();
        let hosts = ["127.0.0.1", "localhost", "[::1]"].map(|host| format!("{host}:{port}"));
        let mut hosts = Vec::from(hosts);
        hosts.push(address.to_string());
        Self::new(port, passphrase, Some(hosts), Box::new(announce))
    }

    /// The same for a server behind a proxy that sees to TLS and to the name that it is reached by.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn behind_proxy(
        address: SocketAddr,
        passphrase: Secret,
        announce: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Self, AccessError> {
        Self::new(address.port(), Some(passphrase), None, Box::new(announce))
    }

    fn new(
        port: u16,
        passphrase: Option<Secret>,
        hosts: Option<Vec<String>>,
        announce: Announce,
    ) -> Result<Self, AccessError> {
        let token = random_token()?;
        announce(&token);
        let token = Mutex::new(Secret::digest(&token));
        // Cookies do not depend on the port, so two servers of one machine need two names.
        let cookie = format!("ralph_{port}");
        Ok(Self { token, announce, passphrase, sessions: Mutex::default(), cookie, hosts })
    }

    /// Whether the request names this server, and comes from its own page, if from a page at all.
    pub(crate) fn check_source(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = single(headers, header::HOST.as_str()).ok_or(Refusal::Host)?;
        if self.hosts.as_ref().is_some_and(|hosts| !hosts.iter().any(|own| own == host)) {
            return Err(Refusal::Host);
        }
        if !headers.contains_key(header::ORIGIN) {
            return if method == Method::GET { Ok(()) } else { Err(Refusal::Origin) };
        }
        let origin = single(headers, header::ORIGIN.as_str()).ok_or(Refusal::Origin)?;
        let is_own = |scheme: &str| origin.strip_prefix(scheme) == Some(host);
        let is_allowed = is_own("http://") || self.hosts.is_none() && is_own("https://");
        if is_allowed { Ok(()) } else { Err(Refusal::Origin) }
    }

    /// Exchanges the token for a cookie and a key; `None` if it is not the token.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn let_in_by_token(&self, secret: &str) -> Result<Option<Admission>, AccessError> {
        if self.use_token(secret)? { self.admit().map(Some) } else { Ok(None) }
    }

    /// The same for the passphrase.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn let_in_by_passphrase(
        &self,
        secret: &str,
    ) -> Result<Option<Admission>, AccessError> {
        if self.is_passphrase(secret) { self.admit().map(Some) } else { Ok(None) }
    }

    fn admit(&self) -> Result<Admission, AccessError> {
        let (session, key) = (random_token()?, random_token()?);
        let digest = |text: &str| blake3::hash(text.as_bytes());
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() >= MOST_SESSIONS {
            sessions.pop_front();
        }
        sessions.push_back(Session { cookie: digest(&session), key: digest(&key) });
        let secure = if self.hosts.is_none() { "; Secure" } else { "" };
        let name = &self.cookie;
        let cookie = format!("{name}={session}; Path=/; HttpOnly; SameSite=Strict{secure}");
        Ok(Admission { cookie, key })
    }

    pub(crate) fn is_passphrase(&self, text: &str) -> bool {
        self.passphrase.as_ref().is_some_and(|own| own.is(text))
    }

    /// Whether this is the token; then there is a new one.
    fn use_token(&self, text: &str) -> Result<bool, AccessError> {
        let mut token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        if !token.is(text) {
            return Ok(false);
        }
        let next = random_token()?;
        *token = Secret::digest(&next);
        drop(token);
        (self.announce)(&next);
        Ok(true)
    }

    /// Whether the request has the cookie of a session.
    pub(crate) fn has_session(&self, headers: &HeaderMap) -> bool {
        self.is_in_session(headers, |_| true)
    }

    /// Whether it has the key of that session, too.
    pub(crate) fn has_key(&self, headers: &HeaderMap) -> bool {
        let Some(key) = single(headers, SESSION_KEY) else { return false };
        let digest = blake3::hash(key.as_bytes());
        self.is_in_session(headers, |session| session.key == digest)
    }

    fn is_in_session(&self, headers: &HeaderMap, suits: impl Fn(&Session) -> bool) -> bool {
        let cookies =
            headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut own = cookies
            .flat_map(|value| value.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie);
        let Some((_, session)) = own.next() else { return false };
        let digest = blake3::hash(session.as_bytes());
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().any(|known| known.cookie == digest && suits(known))
    }
}

/// The passphrase that a program sends with a request, if it sends one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    single(headers, header::AUTHORIZATION.as_str())?.strip_prefix("Bearer ")
}

/// The value of a header that is there once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() { None } else { first.to_str().ok() }
}

fn random_token() -> Result<String, AccessError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| AccessError::Random(error.to_string()))?;
    Ok(HEXLOWER.encode(&bytes))
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Host,
    Origin,
}

impl Refusal {
    pub(crate) const fn message(self) -> &'static str {
        match self {
            Self::Host => "the Host header does not name this server",
            Self::Origin => {
                "the Origin header does not name this server; every POST needs it, and no other \
                 site may send requests"
            }
        }
    }
}

/// Access cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The passphrase is too short.
    #[error("the passphrase is shorter than 16 characters: write a longer one to its file")]
    ShortPassphrase,
    /// The system has no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(String),
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    /// Access with a passphrase, and the tokens that it has announced.
    fn access() -> (Arc<Mutex<Vec<String>>>, Access) {
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let announced = tokens.clone();
        let announce = move |token: &str| announced.lock().unwrap().push(token.to_owned());
        let passphrase = Secret::passphrase("correct horse battery").unwrap();
        let address = "127.0.0.1:4000".parse().unwrap();
        (tokens, Access::on_loopback(address, Some(passphrase), announce).unwrap())
    }

    fn leaked(text: &str) -> &'static str {
        Box::leak(text.to_owned().into_boxed_str())
    }

    #[test]
    fn only_the_own_page_may_ask() {
        let (_, access) = access();
        let check = |method, pairs: &[(&'static str, &'static str)]| {
            access.check_source(&method, &headers(pairs))
        };
        for host in ["127.0.0.1:4000", "localhost:4000", "[::1]:4000"] {
            let host: &'static str = host;
            assert_eq!(check(Method::GET, &[("host", host)]), Ok(()));
            assert_eq!(check(Method::POST, &[("host", host)]), Err(Refusal::Origin));
        }
        for host in ["127.0.0.1", "127.0.0.1:4001", "evil.example:4000", "localhost:4000.evil"] {
            let host: &'static str = host;
            assert_eq!(check(Method::GET, &[("host", host)]), Err(Refusal::Host), "{host}");
        }
        let twice = [("host", "localhost:4000"), ("host", "localhost:4000")];
        assert_eq!(check(Method::GET, &twice), Err(Refusal::Host));
        let own = [("host", "localhost:4000"), ("origin", "http://localhost:4000")];
        assert_eq!(check(Method::POST, &own), Ok(()));
        for origin in ["null", "https://localhost:4000", "http://127.0.0.1:4000", "http://evil"] {
            let origin: &'static str = origin;
            let pairs = [("host", "localhost:4000"), ("origin", origin)];
            assert_eq!(check(Method::GET, &pairs), Err(Refusal::Origin), "{origin}");
            assert_eq!(check(Method::POST, &pairs), Err(Refusal::Origin), "{origin}");
        }
    }

    fn cookie_of(admission: &Admission) -> &'static str {
        leaked(admission.cookie.split(';').next().unwrap())
    }

    #[test]
    fn a_token_lets_in_once() {
        let (tokens, access) = access();
        let let_in = |secret: &str| access.let_in_by_token(secret).unwrap();
        let token = tokens.lock().unwrap()[0].clone();
        assert!(let_in("").is_none());
        assert!(let_in(&token.to_uppercase()).is_none());
        let admission = let_in(&token).unwrap();
        let cookie = &admission.cookie;
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(!cookie.contains(&token), "the cookie has the token");
        assert!(let_in(&token).is_none(), "it was used");
        let next = tokens.lock().unwrap()[1].clone();
        assert!(next != token && let_in(&next).is_some());
        assert!(access.has_session(&headers(&[("cookie", cookie_of(&admission))])));
        assert!(!access.has_session(&headers(&[])));
        assert!(!access.has_session(&headers(&[("cookie", "ralph_4000=")])));
        // A token is neither a cookie nor a passphrase.
        let newest = tokens.lock().unwrap()[2].clone();
        let wrong = leaked(&format!("ralph_4000={newest}"));
        assert!(!access.has_session(&headers(&[("cookie", wrong)])));
        assert!(!access.is_passphrase(&newest));
    }

    #[test]
    fn the_key_belongs_to_its_cookie() {
        let (tokens, access) = access();
        let enter = |number: usize| {
            let token = tokens.lock().unwrap()[number].clone();
            access.let_in_by_token(&token).unwrap().unwrap()
        };
        let (one, other) = (enter(0), enter(1));
        let has_key = |cookie: &'static str, key: &str| {
            access.has_key(&headers(&[("cookie", cookie), (SESSION_KEY, leaked(key))]))
        };
        assert!(has_key(cookie_of(&one), &one.key));
        assert!(!has_key(cookie_of(&one), &other.key));
        assert!(!has_key(cookie_of(&one), ""));
        assert!(!has_key("ralph_4000=x", &one.key));
        assert!(!access.has_key(&headers(&[("cookie", cookie_of(&one))])));
    }

    #[test]
    fn a_passphrase_lets_in_as_often_as_it_is_shown() {
        let (tokens, access) = access();
        let phrase = "correct horse battery";
        for _ in 0..2 {
            assert!(access.let_in_by_passphrase(phrase).unwrap().is_some());
            assert!(access.let_in_by_token(phrase).unwrap().is_none());
        }
        assert_eq!(tokens.lock().unwrap().len(), 1);
        assert!(access.let_in_by_passphrase("correct horse batterz").unwrap().is_none());
        let shown = headers(&[("authorization", "Bearer correct horse battery")]);
        assert_eq!(bearer(&shown), Some(phrase));
        assert_eq!(bearer(&headers(&[("authorization", "Basic x")])), None);
    }

    #[test]
    fn the_oldest_session_ends() {
        let (_, access) = access();
        let enter = || access.let_in_by_passphrase("correct horse battery").unwrap().unwrap();
        let first = cookie_of(&enter());
        for _ in 1..MOST_SESSIONS {
            enter();
        }
        assert!(access.has_session(&headers(&[("cookie", first)])));
        enter();
        assert!(!access.has_session(&headers(&[("cookie", first)])));
    }

    #[test]
    fn a_passphrase_has_sixteen_characters() {
        assert!(Secret::passphrase("fifteen letters").is_err());
        assert!(Secret::passphrase("sixteen letters!\n").unwrap().is("sixteen letters!"));
    }
}
