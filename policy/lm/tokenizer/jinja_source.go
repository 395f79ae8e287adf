package tokenizer

import "strings"

// plainSource rewrites a template into the subset of Jinja that gonja parses:
//
//   - gonja supports only one conditional expression in a tag, outside of brackets. Any other expression a if b else c
//     becomes ((b) and [a] or [c])[0]. This also evaluates only one branch.
//   - gonja rejects a line end before the name of a tag. plainSource removes the line end.
//   - gonja removes the spaces before a statement even if the line has text before the spaces. plainSource adds a plus
//     sign to such a tag, so that gonja keeps the spaces.
func plainSource(source string) string {
	var b strings.Builder
	whole := source
	for source != "" {
		i := strings.IndexByte(source, '{')
		if i < 0 || i+1 == len(source) {
			break
		}
		b.WriteString(source[:i])
		source = source[i:]
		n := 1     // length of the part of source that is processed in this round
		keep := "" // the plus sign
		if before := whole[:len(whole)-len(source)]; len(source) > 2 && source[2] != '-' && source[2] != '+' &&
			!startsLine(before) {
			keep = "+"
		}
		switch source[1] {
		case '#':
			n = len(source)
			if end := strings.Index(source, "#}"); end >= 0 {
				n = end + len("#}")
			}
			b.WriteString(source[:2] + keep + source[2:n])
		case '{', '%':
			n = tagLength(source)
			tag := plainTag(source[:n])
			if source[1] == '%' {
				tag = tag[:2] + keep + tag[2:]
			}
			b.WriteString(tag)
			if strings.Trim(source[:n], "{}%-+ \t\r\n") == "raw" {
				end := rawLength(source[n:])
				b.WriteString(source[n : n+end])
				n += end
			}
		default:
			b.WriteByte('{')
		}
		source = source[n:]
	}
	return b.String() + source
}

// startsLine reports whether text ends in a line of only spaces, or does not end in a space. text is the whole text
// before a statement.
func startsLine(text string) bool {
	line := strings.TrimRight(text, " \t")
	return line == "" || len(line) == len(text) || line[len(line)-1] == '\n'
}

// tagLength returns the length of the tag at the start of source, or the length of source if the tag has no end.
func tagLength(source string) int {
	end := "}}"
	if source[1] == '%' {
		end = "%}"
	}
	for i := 2; i < len(source); i = unit(source, i) {
		if strings.HasPrefix(source[i:], end) {
			return i + len(end)
		}
	}
	return len(source)
}

// rawLength returns the length of the text before the tag "endraw".
func rawLength(source string) int {
	for i := 0; i < len(source); i++ {
		if strings.HasPrefix(source[i:], "{%") &&
			strings.HasPrefix(strings.TrimLeft(source[i+2:], "-+ \t\r\n"), "endraw") {
			return i
		}
	}
	return len(source)
}

// unit returns the end of the unit that begins at index i of an expression. A unit is a quoted text, a pair of brackets
// with its content, or one byte.
func unit(s string, i int) int {
	switch s[i] {
	case '"', '\'':
		for j := i + 1; j < len(s); j++ {
			switch s[j] {
			case '\\':
				j++
			case s[i]:
				return j + 1
			}
		}
		return len(s)
	case '(', '[', '{':
		end := map[byte]byte{'(': ')', '[': ']', '{': '}'}[s[i]]
		for j := i + 1; j < len(s); j = unit(s, j) {
			if s[j] == end {
				return j + 1
			}
		}
		return len(s)
	}
	return i + 1
}

// plainTag rewrites the expressions of a tag.
func plainTag(tag string) string {
	body := strings.TrimLeft(tag[2:], "-+")
	head := tag[:len(tag)-len(body)]
	body = strings.TrimLeft(body, " \t\r\n")
	tail := ""
	if end := len(body) - len("}}"); strings.HasSuffix(body, "}}") || strings.HasSuffix(body, "%}") {
		if end > 0 && (body[end-1] == '-' || body[end-1] == '+') {
			end--
		}
		body, tail = body[:end], body[end:]
	}
	switch name, _, _ := strings.Cut(body, " "); {
	case tag[1] == '{' && conditions(body) > 1:
		body = plainExpression(body)
	case name == "set" && conditions(body) > 0:
		if i := indexOutside(body, 0, "="); i >= 0 {
			body = body[:i+1] + " " + plainExpression(body[i+1:])
		}
	default:
		body = plainGroups(body)
	}
	return head + " " + body + tail
}

// indexOutside searches s, from index i, for a word or sign outside of brackets and quotes. It returns the index of the
// word, or -1 if there is none.
func indexOutside(s string, i int, word string) int {
	letter := func(i int) bool {
		return i >= 0 && i < len(s) &&
			(s[i] == '_' || s[i]|0x20 >= 'a' && s[i]|0x20 <= 'z' || s[i] >= '0' && s[i] <= '9')
	}
	for ; i < len(s); i = unit(s, i) {
		if strings.HasPrefix(s[i:], word) && !(letter(i) && (letter(i-1) || letter(i+len(word)))) {
			return i
		}
	}
	return -1
}

// conditions counts the conditional expressions outside of brackets.
func conditions(s string) int {
	n := 0
	for i := indexOutside(s, 0, "if"); i >= 0; i = indexOutside(s, i+1, "if") {
		n++
	}
	return n
}

// plainExpression rewrites an expression, including the content of brackets.
func plainExpression(s string) string {
	i := indexOutside(s, 0, "if")
	if i < 0 {
		return plainGroups(s)
	}
	condition, otherwise := s[i+len("if"):], "none"
	if j := indexOutside(condition, 0, "else"); j >= 0 {
		condition, otherwise = condition[:j], condition[j+len("else"):]
	}
	return "((" + plainGroups(condition) + ") and [" + plainGroups(s[:i]) + "] or [" +
		plainExpression(otherwise) + "])[0]"
}

// plainGroups rewrites the expressions inside the brackets of an expression. Commas, colons and assignment signs
// separate expressions.
func plainGroups(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		end := unit(s, i)
		if !strings.ContainsRune("([{", rune(s[i])) || end < i+2 {
			b.WriteString(s[i:end])
			i = end
			continue
		}
		b.WriteByte(s[i])
		inner := s[i+1 : end-1]
		if s[i] != '(' { // gonja rejects a comma after the last item
			inner = strings.TrimSuffix(strings.TrimRight(inner, " \t\r\n"), ",")
		}
		from := 0
		for j := 0; j < len(inner); j = unit(inner, j) {
			if inner[j] == ',' || inner[j] == ':' || assigns(inner, j) {
				b.WriteString(plainExpression(inner[from:j]))
				b.WriteByte(inner[j])
				from = j + 1
			}
		}
		b.WriteString(plainExpression(inner[from:]))
		b.WriteByte(s[end-1])
		i = end
	}
	return b.String()
}

// assigns reports whether s[i] is an assignment sign, and not part of a comparison.
func assigns(s string, i int) bool {
	return s[i] == '=' && (i == 0 || !strings.ContainsRune("=!<>", rune(s[i-1]))) && (i+1 == len(s) || s[i+1] != '=')
}
