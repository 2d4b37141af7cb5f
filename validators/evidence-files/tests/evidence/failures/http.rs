//! Status lines of HTTP, as curl shows them.

use super::Reported;

const CURL: &str = "HTTP/1.1 503 Service Unavailable\r
content-type: application/json\r
\r
{}\r
";

const CURL_OK: &str = "> GET /error/500 HTTP/1.1
< HTTP/1.1 200 OK
< content-length: 2
GET /error 200
GET /HTTP/1.1 500 times
";

pub(super) const REPORTED: &[Reported] = &[
    ("h.txt", CURL, 1, "HTTP/1.1 503 Service Unavailable"),
    ("h.txt", "HTTP/2 502 \n", 1, "HTTP/2 502"),
    ("h.txt", "* TLS\n< HTTP/1.1 500 Internal Server Error\n", 2, "< HTTP/1.1 500"),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("h.txt", CURL_OK),
    (
        "w.txt",
        "HTTP/1.1 200 OK\nHTTP/1.1 404 Not Found\nHTTP/1.1 5000\nHTTP/1.1 5xx\n  HTTP/1.1 500\n",
    ),
];
