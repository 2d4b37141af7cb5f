//! JSON whose top level says how it went.

use super::Reported;

pub(super) const REPORTED: &[Reported] = &[
    ("a.json", "{\"status\":\"fail\"}", 1, "{\"status\":\"fail\"}"),
    (
        "a.json",
        "{\n \"n\": 3,\n \"Status\": 1,\n \"status\" : \"FAILED\"\n}",
        4,
        "\"status\" : \"FAILED\"",
    ),
    ("a.json", "\u{feff}{\"status\":\"Error\"}", 1, ""),
    ("a.json", "{\"status\":\"failure\"}", 1, ""),
    ("a.json", "{\"status\": 500, \"a\": [1, 2]}", 1, ""),
    ("a.json", "{\"a\": {\"ok\": true}, \"status_code\": 599}", 1, ""),
    ("a.json", "{\"statusCode\":503}", 1, ""),
    ("a.json", "{\"st\\u0061tus\":\"f\\u0061il\"}", 1, ""),
    ("a.json", "{\"ok\":false}", 1, ""),
    ("a.json", "{\"success\" :\nfalse\n}", 1, ""),
    ("a.json", "{\"passed\":false,\"a\":\"}\"}", 1, ""),
    ("a.json", "{\"ok\":true,\"ok\":false}", 1, ""),
    ("a.txt", "{\"status\":\"fail\"}\n", 1, ""),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("a.json", "{\"status\":\"ok\",\"errors\":0,\"failed\":0,\"error\":null}"),
    ("a.json", "{\"result\":{\"status\":\"fail\",\"ok\":false}}"),
    ("a.json", "[{\"status\":\"fail\"}]"),
    ("a.json", "{\"cases\":[{\"ok\":false}],\"ok\":true}"),
    ("a.json", "{\"a\":\"\\\"status\\\":\\\"fail\\\"\",\"b\":\"{\",\"status\":\"passed\"}"),
    ("a.json", "{\"status\":200,\"status_code\":404,\"statusCode\":5000}"),
    ("a.json", "{\"status\":\"failover\",\"success\":null,\"passed\":0}"),
    ("a.json", "{\"status\":[\"fail\"],\"ok\":{\"a\":false}}"),
    ("a.json", "\"FAIL\""),
    ("a.txt", "{\"status\":\"fail\"} was the answer last week, now it is ok"),
];
