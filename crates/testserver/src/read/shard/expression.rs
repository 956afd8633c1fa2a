//! The subset of CEL that shard selectors use, parsed far enough to report any other expression.

use std::iter::Peekable;
use std::str::CharIndices;

/// A parsed expression, reduced to the parts that matter here.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Or(Vec<Expression>),
    /// Operators are functions too: `_&&_`.
    Call {
        function: String,
        arguments: Vec<Expression>,
    },
    /// Names joined by dots.
    Path(String),
    Literal(Literal),
    List,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Text(String),
    Integer,
    Float,
    Bool,
    Null,
}

impl Expression {
    /// Returns the number that CEL assigns to this kind of expression.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Or(_) | Self::Call { .. } => 1,
            Self::Path(path) if !path.contains('.') => 3,
            Self::List => 4,
            Self::Literal(_) => 5,
            Self::Path(_) => 7,
        }
    }
}

impl Literal {
    /// Returns the name of the Go type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::Integer => "int64",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Null => "structpb.NullValue",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Name(String),
    Literal(Literal),
    /// An operator, a bracket, a comma or a dot.
    Sign(&'static str),
}

/// Longer signs are tried first.
const SIGNS: [&str; 22] = [
    "||", "&&", "==", "!=", "<=", ">=", "(", ")", "[", "]", ",", ".", "!", "<", ">", "+", "-", "*", "/", "%",
    "?", ":",
];

/// The maximum nesting of expressions, as in CEL.
const DEPTH: usize = 32;

/// Parses an expression; the error describes the syntax error.
pub(crate) fn parse(text: &str) -> Result<Expression, String> {
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: tokens.into_iter().peekable(), depth: 0 };
    let expression = parser.or()?;
    match parser.tokens.next() {
        None => Ok(expression),
        Some(more) => Err(format!("mismatched input {} expecting <EOF>", shown(Some(&more)))),
    }
}

fn shown(token: Option<&Token>) -> String {
    match token {
        None => "'<EOF>'".into(),
        Some(Token::Name(name)) => format!("'{name}'"),
        Some(Token::Literal(literal)) => format!("'{}'", literal.type_name()),
        Some(Token::Sign(sign)) => format!("'{sign}'"),
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut chars = text.char_indices().peekable();
    while let Some(&(at, c)) = chars.peek() {
        let rest = text.get(at..).unwrap_or("");
        if c.is_ascii_whitespace() {
            chars.next();
        } else if rest.starts_with("//") {
            while chars.next_if(|(_, c)| *c != '\n').is_some() {}
        } else if rest.starts_with(['\'', '"']) || rest.starts_with("r'") || rest.starts_with("r\"") {
            tokens.push(Token::Literal(Literal::Text(quoted(&mut chars)?)));
        } else if c.is_ascii_digit() {
            let number = take_while(&mut chars, |c| c.is_ascii_alphanumeric() || c == '.');
            let literal = if number.contains('.') { Literal::Float } else { Literal::Integer };
            tokens.push(Token::Literal(literal));
        } else if c.is_ascii_alphabetic() || c == '_' {
            let name = take_while(&mut chars, |c| c.is_ascii_alphanumeric() || c == '_');
            tokens.push(match name.as_str() {
                "true" | "false" => Token::Literal(Literal::Bool),
                "null" => Token::Literal(Literal::Null),
                _ => Token::Name(name),
            });
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            sign.chars().for_each(|_| {
                chars.next();
            });
            tokens.push(Token::Sign(sign));
        } else {
            let seen: String = rest.chars().take(2).collect();
            return Err(format!("token recognition error at: '{seen}'"));
        }
    }
    Ok(tokens)
}

fn take_while(chars: &mut Peekable<CharIndices<'_>>, wanted: fn(char) -> bool) -> String {
    let mut taken = String::new();
    while let Some((_, c)) = chars.next_if(|(_, c)| wanted(*c)) {
        taken.push(c);
    }
    taken
}

/// Reads a quoted text. Escaped characters are copied unchanged, because accepted selectors never contain
/// them.
fn quoted(chars: &mut Peekable<CharIndices<'_>>) -> Result<String, String> {
    chars.next_if(|(_, c)| *c == 'r');
    let quote = chars.next().map_or('\'', |(_, c)| c);
    let mut text = String::new();
    for (_, c) in chars {
        if c == quote {
            return Ok(text);
        }
        text.push(c);
    }
    Err(format!("token recognition error at: '{quote}{text}'"))
}

struct Parser {
    tokens: Peekable<std::vec::IntoIter<Token>>,
    depth: usize,
}

impl Parser {
    fn takes(&mut self, sign: &str) -> bool {
        self.tokens.next_if(|token| matches!(token, Token::Sign(own) if *own == sign)).is_some()
    }

    fn or(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(format!("expression recursion limit exceeded: {DEPTH}"));
        }
        let mut parts = vec![self.operation()?];
        while self.takes("||") {
            parts.push(self.operation()?);
        }
        self.depth -= 1;
        match (parts.len(), parts.pop()) {
            (1, Some(only)) => Ok(only),
            (_, last) => {
                parts.extend(last);
                Ok(Expression::Or(parts))
            }
        }
    }

    /// Reads a primary, or an operation whose operands do not matter.
    fn operation(&mut self) -> Result<Expression, String> {
        if self.takes("!") {
            self.primary()?;
            return Ok(Expression::Call { function: "!_".into(), arguments: Vec::new() });
        }
        let mut whole = self.primary()?;
        let operator = |token: &Token| matches!(token, Token::Sign(sign) if is_operator(sign));
        while let Some(Token::Sign(sign)) = self.tokens.next_if(operator) {
            let mut function = format!("_{sign}_");
            self.primary()?;
            if sign == "?" {
                if !self.takes(":") {
                    return Err(format!("mismatched input {} expecting ':'", shown(self.tokens.peek())));
                }
                self.primary()?;
                function = "_?_:_".into();
            }
            whole = Expression::Call { function, arguments: Vec::new() };
        }
        Ok(whole)
    }

    fn primary(&mut self) -> Result<Expression, String> {
        match self.tokens.next() {
            Some(Token::Literal(literal)) => Ok(Expression::Literal(literal)),
            Some(Token::Sign("(")) => {
                let inner = self.or()?;
                if self.takes(")") { Ok(inner) } else { Err(missing(")", self.tokens.peek())) }
            }
            Some(Token::Sign("[")) => self.arguments("]").map(|_| Expression::List),
            Some(Token::Name(name)) => self.path(name),
            other => Err(format!("mismatched input {} expecting an expression", shown(other.as_ref()))),
        }
    }

    /// Reads an expression that begins with a name: a path, or a call of its last name.
    fn path(&mut self, first: String) -> Result<Expression, String> {
        let mut path = first;
        loop {
            if self.takes("(") {
                let function = path.rsplit('.').next().unwrap_or("").to_owned();
                let arguments = self.arguments(")")?;
                let mut call = Expression::Call { function, arguments };
                // A member of a call's result is not a path.
                while self.takes(".") {
                    self.tokens.next();
                    call = Expression::Call { function: "_._".into(), arguments: Vec::new() };
                }
                return Ok(call);
            }
            if self.takes("[") {
                self.arguments("]")?;
                path = "_[_]".into();
                while self.takes(".") {
                    self.tokens.next();
                }
                return Ok(Expression::Call { function: path, arguments: Vec::new() });
            }
            if !self.takes(".") {
                return Ok(Expression::Path(path));
            }
            match self.tokens.next() {
                Some(Token::Name(name)) => path = format!("{path}.{name}"),
                other => {
                    return Err(format!("mismatched input {} expecting IDENTIFIER", shown(other.as_ref())));
                }
            }
        }
    }

    fn arguments(&mut self, end: &str) -> Result<Vec<Expression>, String> {
        let mut arguments = Vec::new();
        if self.takes(end) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.or()?);
            if self.takes(end) {
                return Ok(arguments);
            }
            if !self.takes(",") {
                return Err(missing(end, self.tokens.peek()));
            }
        }
    }
}

fn is_operator(sign: &str) -> bool {
    !matches!(sign, "||" | "(" | ")" | "[" | "]" | "," | "." | "!" | ":")
}

fn missing(sign: &str, before: Option<&Token>) -> String {
    format!("missing '{sign}' at {}", shown(before))
}
