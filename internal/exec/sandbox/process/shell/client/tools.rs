//! Calls the tools that a program may use.

use std::fmt;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const SOCKET: &str = "/tmp/.biplane/tools";
const MAX_DEPTH: usize = 200;

/// A value of JSON. Numbers keep their text, so that large integers are exact.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// The error of a call.
#[derive(Clone, Debug)]
pub struct ToolError {
    pub kind: String,
    pub message: String,
    pub data: Json,
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {}

fn fail(message: String) -> ToolError {
    ToolError { kind: "internal".to_string(), message, data: Json::Null }
}

/// Makes an object: tools::object!{"repo": "a/b", "limit": 3}.
#[macro_export]
macro_rules! object {
    ($($name:literal : $value:expr),* $(,)?) => {
        $crate::Json::Object(vec![$(($name.to_string(), $crate::Json::from($value))),*])
    };
}

/// Calls a tool by its path, "github.list_issues".
pub fn call(path: &str, args: Json) -> Result<Json, ToolError> {
    let mut request = vec![("path".to_string(), Json::from(path))];
    if args != Json::Null {
        request.push(("args".to_string(), args));
    }
    send(Json::Object(request))
}

/// Finds tools by what they do.
pub fn search(query: &str) -> Result<Json, ToolError> {
    call("biplane.search", object! {"query": query})
}

/// Gives a file, or a handle from a result, to the user.
pub fn emit(what: &str) -> Result<(), ToolError> {
    send(object! {"emit": what}).map(|_| ())
}

fn send(request: Json) -> Result<Json, ToolError> {
    let exchange = || -> std::io::Result<String> {
        let mut stream = UnixStream::connect(SOCKET)?;
        stream.write_all(format!("{}\n", request).as_bytes())?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    };
    let reply = exchange().map_err(|e| fail(format!("call a tool: {}", e)))?;
    let reply = Json::parse(&reply).map_err(|_| fail("call a tool: there is no answer".to_string()))?;
    let error = reply.get("error");
    if *error == Json::Null {
        return Ok(reply.get("value").clone());
    }
    let text = |name: &str| error.get(name).as_str().unwrap_or("").to_string();
    Err(ToolError { kind: text("kind"), message: text("message"), data: error.get("data").clone() })
}

static NULL: Json = Json::Null;

impl Json {
    /// Returns a member of an object, or null.
    pub fn get(&self, name: &str) -> &Json {
        match self {
            Json::Object(members) => members.iter().find(|m| m.0 == name).map_or(&NULL, |m| &m.1),
            _ => &NULL,
        }
    }

    /// Returns an item of an array, or null.
    pub fn at(&self, index: usize) -> &Json {
        self.items().get(index).unwrap_or(&NULL)
    }

    /// Returns the items of an array; none if it isn't one.
    pub fn items(&self) -> &[Json] {
        match self {
            Json::Array(items) => items,
            _ => &[],
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Json::String(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Json::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Json::Number(n) => n.parse().ok(),
            _ => None,
        }
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Json::Number(n) => n.parse().ok(),
            _ => None,
        }
    }

    /// Parses a document.
    pub fn parse(text: &str) -> Result<Json, String> {
        let mut p = Parser { text: text.as_bytes(), at: 0 };
        let value = p.value(0)?;
        p.space();
        if p.at < p.text.len() {
            return Err(p.error());
        }
        Ok(value)
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn error(&self) -> String {
        format!("invalid JSON at byte {}", self.at)
    }

    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json, String> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error());
        }
        self.at += word.len();
        Ok(value)
    }

    /// Skips a byte if it is next, and white space before it.
    fn skip(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.peek() == byte;
        self.at += found as usize;
        found
    }

    fn value(&mut self, depth: usize) -> Result<Json, String> {
        self.space();
        if depth > MAX_DEPTH {
            return Err("the JSON is too deep".to_string());
        }
        match self.peek() {
            b'n' => self.word("null", Json::Null),
            b't' => self.word("true", Json::Bool(true)),
            b'f' => self.word("false", Json::Bool(false)),
            b'"' => Ok(Json::String(self.string()?)),
            b'[' => {
                self.at += 1;
                let mut items = Vec::new();
                if self.skip(b']') {
                    return Ok(Json::Array(items));
                }
                loop {
                    items.push(self.value(depth + 1)?);
                    if self.skip(b']') {
                        return Ok(Json::Array(items));
                    }
                    if !self.skip(b',') {
                        return Err(self.error());
                    }
                }
            }
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                if self.skip(b'}') {
                    return Ok(Json::Object(members));
                }
                loop {
                    self.space();
                    let name = self.string()?;
                    if !self.skip(b':') {
                        return Err(self.error());
                    }
                    members.push((name, self.value(depth + 1)?));
                    if self.skip(b'}') {
                        return Ok(Json::Object(members));
                    }
                    if !self.skip(b',') {
                        return Err(self.error());
                    }
                }
            }
            _ => {
                let from = self.at;
                while matches!(self.peek(), b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E') {
                    self.at += 1;
                }
                if from == self.at {
                    return Err(self.error());
                }
                Ok(Json::Number(String::from_utf8_lossy(&self.text[from..self.at]).to_string()))
            }
        }
    }

    fn unit(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).ok_or_else(|| self.error())?;
        let digits = std::str::from_utf8(digits).map_err(|_| self.error())?;
        let unit = u32::from_str_radix(digits, 16).map_err(|_| self.error())?;
        self.at += 4;
        Ok(unit)
    }

    fn string(&mut self) -> Result<String, String> {
        if self.peek() != b'"' {
            return Err(self.error());
        }
        self.at += 1;
        let mut out = Vec::new();
        loop {
            let byte = *self.text.get(self.at).ok_or_else(|| self.error())?;
            self.at += 1;
            match byte {
                b'"' => return String::from_utf8(out).map_err(|_| self.error()),
                b'\\' => {
                    let escaped = self.peek();
                    self.at += 1;
                    let c = match escaped {
                        b'n' => '\n',
                        b't' => '\t',
                        b'r' => '\r',
                        b'b' => '\u{8}',
                        b'f' => '\u{c}',
                        b'u' => self.character()?,
                        b'"' | b'\\' | b'/' => escaped as char,
                        _ => return Err(self.error()),
                    };
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => out.push(byte),
            }
        }
    }

    /// Reads the character of one or two escapes \u.
    fn character(&mut self) -> Result<char, String> {
        let unit = self.unit()?;
        if (0xd800..0xdc00).contains(&unit) && self.text[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let low = self.unit()?;
            let code = 0x10000 + ((unit - 0xd800) << 10) + (low.wrapping_sub(0xdc00) & 0x3ff);
            return Ok(char::from_u32(code).unwrap_or('\u{fffd}'));
        }
        Ok(char::from_u32(unit).unwrap_or('\u{fffd}'))
    }
}

fn quote(f: &mut fmt::Formatter, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            c if (c as u32) < 0x20 => write!(f, "\\u{:04x}", c as u32)?,
            c => write!(f, "{}", c)?,
        }
    }
    f.write_str("\"")
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Json::Null => f.write_str("null"),
            Json::Bool(b) => write!(f, "{}", b),
            Json::Number(n) => f.write_str(n),
            Json::String(s) => quote(f, s),
            Json::Array(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{}", item)?;
                }
                f.write_str("]")
            }
            Json::Object(members) => {
                f.write_str("{")?;
                for (i, (name, value)) in members.iter().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    quote(f, name)?;
                    write!(f, ":{}", value)?;
                }
                f.write_str("}")
            }
        }
    }
}

impl From<&str> for Json {
    fn from(v: &str) -> Json {
        Json::String(v.to_string())
    }
}

impl From<String> for Json {
    fn from(v: String) -> Json {
        Json::String(v)
    }
}

impl From<&String> for Json {
    fn from(v: &String) -> Json {
        Json::String(v.clone())
    }
}

impl From<bool> for Json {
    fn from(v: bool) -> Json {
        Json::Bool(v)
    }
}

impl From<&Json> for Json {
    fn from(v: &Json) -> Json {
        v.clone()
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(v: Vec<T>) -> Json {
        Json::Array(v.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(v: Option<T>) -> Json {
        v.map_or(Json::Null, Into::into)
    }
}

macro_rules! numbers {
    ($($t:ty),*) => { $(impl From<$t> for Json {
        fn from(v: $t) -> Json { Json::Number(v.to_string()) }
    })* };
}

numbers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

impl From<f64> for Json {
    fn from(v: f64) -> Json {
        if v.is_finite() {
            Json::Number(v.to_string())
        } else {
            Json::Null
        }
    }
}
