//! One request over one connection. When the future is dropped, the connection is closed: so a request
//! is cancelled.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The longest answer that is read, in bytes.
const LONGEST: usize = 32 * 1024 * 1024;

/// Where the model is.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    secure: bool,
    host: String,
    port: u16,
    /// For the header `host`.
    authority: String,
    path: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) body: Vec<u8>,
}

/// Nothing came back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{authority} cannot be reached: {error}")]
    Connect { authority: String, error: String },
    #[error("the connection with {authority} broke: {error}")]
    Broke { authority: String, error: String },
    #[error("the model's endpoint did not answer within {seconds} s (`answer_seconds`)")]
    TimedOut { seconds: u64 },
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection over which nothing was said yet.
pub(crate) struct Connection(Box<dyn Stream>);

impl Endpoint {
    /// Of a base URL such as `https://api.openai.com/v1`.
    pub(crate) fn parse(base_url: &str) -> Result<Self, String> {
        let example = "expected one such as \"https://api.openai.com/v1\"";
        let wrong = |why: &str| format!("`{base_url}` is no URL of an endpoint: {why}; {example}");
        let uri: Uri = base_url.parse().map_err(|error| wrong(&format!("{error}")))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") if cfg!(feature = "tls") => true,
            Some("https") => return Err(wrong("this build speaks no TLS (feature `tls`)")),
            _ => return Err(wrong("it begins with neither http:// nor https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a key belongs into the environment (`api_key_env`)"));
        }
        let path = format!("{}/chat/completions", uri.path().trim_end_matches('/'));
        Ok(Self {
            secure,
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
            path,
        })
    }

    /// Connects, and says nothing.
    pub(crate) async fn connect(&self) -> Result<Connection, HttpError> {
        let failed =
            |error: String| HttpError::Connect { authority: self.authority.clone(), error };
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| failed(error.to_string()))?;
        stream.set_nodelay(true).map_err(|error| failed(error.to_string()))?;
        #[cfg(feature = "tls")]
        if self.secure {
            let secured = tls::secure(&self.host, stream).await.map_err(failed)?;
            return Ok(Connection(Box::new(secured)));
        }
        debug_assert!(!self.secure, "`parse` allows it only with the feature");
        Ok(Connection(Box::new(stream)))
    }

    /// Posts JSON, and reads the whole answer.
    pub(crate) async fn post(&self, key: Option<&str>, json: Vec<u8>) -> Result<Answer, HttpError> {
        let broke = |error: String| HttpError::Broke { authority: self.authority.clone(), error };
        let Connection(stream) = self.connect().await?;
        let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = made.map_err(|error| broke(error.to_string()))?;
        let mut request = Request::post(self.path.as_str())
            .header(HOST, &self.authority)
            .header(USER_AGENT, concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/json");
        if let Some(key) = key {
            request = request.header(AUTHORIZATION, format!("Bearer {key}"));
        }
        let request = request.body(Full::new(Bytes::from(json)));
        let request = request.map_err(|error| broke(error.to_string()))?;
        let exchange = async {
            let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let header = answer.headers().get(RETRY_AFTER);
            let retry_after = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
            let body = Limited::new(answer.into_body(), LONGEST).collect().await;
            let body = body.map_err(|error| error.to_string())?.to_bytes().to_vec();
            Ok(Answer { status, retry_after, body })
        };
        // The connection has to be driven beside it, and only as long.
        tokio::pin!(connection, exchange);
        tokio::select! {
            biased;
            answer = &mut exchange => answer.map_err(broke),
            ended = &mut connection => match ended {
                // All has come, and only has to be taken.
                Ok(()) => exchange.await.map_err(broke),
                Err(error) => Err(broke(error.to_string())),
            },
        }
    }
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

    /// With the roots that browsers trust, which are part of the library.
    pub(super) async fn secure(
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| error.to_string())
    }
}
