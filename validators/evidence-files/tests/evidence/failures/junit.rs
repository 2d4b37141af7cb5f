//! JUnit XML.

use super::Reported;

const NODE_JUNIT: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="good" time="0.001267" classname="test"/>
	<testcase name="bad" time="0.001139" classname="test" failure="1 == 2">
		<failure type="testCodeFailure" message="1 == 2">
[Error [ERR_TEST_FAILURE]: 1 == 2] {
}
		</failure>
	</testcase>
	<!-- tests 2 -->
</testsuites>
"#;

/// What is to be done later may fail.
const NODE_JUNIT_OK: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<testsuites>
	<testcase name="good" time="0.001267" classname="test"/>
	<testcase name="later" time="0.000194" classname="test" failure="1 == 2">
		<skipped type="todo" message="true"/>
		<failure type="testCodeFailure" message="1 == 2">
		</failure>
	</testcase>
	<!-- fail 1 <failure/> -->
</testsuites>
"#;

const JUNIT: &str = r#"<?xml version="1.0"?>
<!-- by pytest -->
<testsuites name='all > none'>
  <testsuite name="a > b" tests='3'
      errors = "0" failures='1' time="0.1">
    <testcase name="x"><failure message="no"/></testcase>
  </testsuite>
</testsuites>
"#;

const JUNIT_OK: &str = r#"<?xml version="1.0"?>
<!DOCTYPE testsuites [<!ENTITY failures "3">]>
<testsuites name='failures="3"' failures="0" errors="">
  <testsuite name="failure" tests="1" failures="0" errors="0" data-failures="2">
    <properties><property name="failures" value="7"/></properties>
    <testcase name="error"><system-out><![CDATA[
FAILED (failures=1)
<testsuite failures="9">
test result: FAILED. 0 passed; 1 failed; 0 ignored
]]></system-out>
<system-err>
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 1
</system-err></testcase>
  </testsuite>
</testsuites>
"#;

pub(super) const REPORTED: &[Reported] = &[
    ("x.xml", NODE_JUNIT, 5, "<failure type=\"testCodeFailure\" message=\"1 == 2\">"),
    ("x.txt", NODE_JUNIT, 5, "<failure type="),
    ("x.xml", JUNIT, 4, "<testsuite name=\"a > b\" tests='3'"),
    ("x.xml", "<testsuite tests=\"1\" errors=\"2\"/>", 1, "<testsuite tests="),
    (
        "x.xml",
        "<testsuite><testcase name='a'><error/></testcase></testsuite>",
        1,
        "<testsuite><testcase name='a'><error/>",
    ),
];

pub(super) const NOT_REPORTED: &[(&str, &str)] = &[
    ("x.xml", NODE_JUNIT_OK),
    ("x.xml", JUNIT_OK),
    ("x.xml", "<report failures=\"3\"><testsuite failures=\"2\"/></report>"),
    ("x.xml", "<testsuite failures=\"none\" errors='-1'><failure/></testsuite>"),
    ("x.xml", "<testsuitex failures=\"3\"/>"),
];
