package review

// A cursor reads the tokens of a Python program.
type cursor struct {
	list []token
	at   int // index of the next token
	base int // offset of the code in the program
}

func (c *cursor) failSyntax() { panic(errSyntax) }

func (c *cursor) peekToken() token { return c.list[c.at] }

func (c *cursor) peekAfter(n int) token { return c.list[min(c.at+n, len(c.list)-1)] }

func (c *cursor) nextToken() token {
	t := c.list[c.at]
	if t.kind != endToken {
		c.at++
	}
	return t
}

// isNext reports whether the next token is a word or a mark with a text.
func (c *cursor) isNext(text string) bool {
	t := c.list[c.at]
	return (t.kind == wordToken || t.kind == markToken) && t.text == text
}

func (c *cursor) acceptToken(text string) bool {
	if !c.isNext(text) {
		return false
	}
	c.at++
	return true
}

func (c *cursor) expectToken(text string) {
	if !c.acceptToken(text) {
		c.failSyntax()
	}
}

func (c *cursor) placeHere() int { return c.peekToken().at + c.base }

// endsStatement reports whether nothing of a simple statement is left.
func (c *cursor) endsStatement() bool {
	k := c.peekToken().kind
	return k == lineToken || k == endToken || k == dedentToken || c.isNext(";")
}

// closesBeforeColon reports whether the bracket at the next token closes right before a colon.
func (c *cursor) closesBeforeColon() bool {
	depth := 0
	for i := c.at; i < len(c.list); i++ {
		switch t := c.list[i]; {
		case t.kind == lineToken:
			return false
		case t.kind != markToken:
		case t.text == "(" || t.text == "[" || t.text == "{":
			depth++
		case t.text == ")" || t.text == "]" || t.text == "}":
			if depth--; depth == 0 {
				return c.list[i+1].kind == markToken && c.list[i+1].text == ":"
			}
		}
	}
	return false
}
