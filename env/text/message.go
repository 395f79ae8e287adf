package text

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// A message is one turn of a conversation.
type message struct {
	raw   json.RawMessage // input of the chat template
	role  string
	learn bool   // whether the message is the assistant's, with a weight other than 0
	text  string // the content
	parts []part // what the chat template must write
}

// A part is what a chat template must write of a message: a text that is not blank, or the argument of a call.
type part struct {
	text string // "" for an argument: the template chooses its form
	path []any  // keys of objects and indices of lists that lead to the part
	name bool   // the part is the last key of path
}

// says reports whether a message has any text.
func (m message) says() bool { return m.text != "" || len(m.parts) > 0 }

// roles are the valid roles of a message.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function", "ipython"}

// shareGPT maps role names of ShareGPT to roles.
var shareGPT = map[string]string{
	"system": "system", "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant",
	"assistant": "assistant", "tool": "tool", "observation": "tool",
}

// weightKeys are the keys that decide whether a message is learnt. Their value is 1 or true for
// yes, 0 or false for no.
var weightKeys = []string{"weight", "train", "loss", "loss_weight"}

// messagesIn reads a list of messages, in the form of OpenAI (role and content) or ShareGPT (from and value).
func messagesIn(raw json.RawMessage) ([]message, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || isNull(raw) {
		return nil, errors.New("expected a list of messages")
	}
	messages := make([]message, len(list))
	for i, raw := range list {
		m, err := readMessage(raw)
		if err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
		messages[i] = m
	}
	return messages, nil
}

func readMessage(raw json.RawMessage) (m message, err error) {
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil || keys == nil {
		return m, errors.New("expected an object with role and content")
	}
	changed := false
	if _, ok := keys["role"]; !ok && keys["from"] != nil {
		from, ok := textIn(keys["from"])
		if m.role = shareGPT[from]; !ok || m.role == "" {
			return m, fmt.Errorf("from is %s: expected one of %s", keys["from"],
				strings.Join(slices.Sorted(maps.Keys(shareGPT)), ", "))
		}
		keys["role"], keys["content"], changed = encoded(m.role), keys["value"], true
	}
	var ok bool
	if m.role, ok = textIn(keys["role"]); !ok {
		return m, errors.New("expected an object with role and content")
	}
	if !slices.Contains(roles, m.role) {
		return m, fmt.Errorf("role is %q: expected one of %s", m.role, strings.Join(roles, ", "))
	}
	if m.learn, err = learns(m.role, keys); err != nil {
		return m, err
	}
	if err := checkTexts(keys); err != nil {
		return m, err
	}
	if err := m.readCalls(keys); err != nil {
		return m, err
	}
	content, isText := textIn(keys["content"])
	switch {
	case isText:
	case isNull(keys["content"]):
		if len(m.parts) == 0 {
			return m, fmt.Errorf("the %s has no content: expected a text", m.role)
		}
	default:
		if content, err = joinParts(keys["content"]); err != nil {
			return m, err
		}
		keys["content"], changed = encoded(content), true
	}
	m.text = content
	m.addPart(content, "content")
	if err := m.readThoughts(keys); err != nil {
		return m, err
	}
	if m.raw = raw; changed {
		m.raw, err = json.Marshal(keys)
	}
	return m, err
}

// addPart adds the text at the given path of a message to its parts, unless the text is blank.
func (m *message) addPart(text string, path ...any) {
	if withoutSpace(text) != "" {
		m.parts = append(m.parts, part{text: text, path: path})
	}
}

// readCalls adds the names and the arguments of called functions to the parts of a message.
func (m *message) readCalls(keys map[string]json.RawMessage) error {
	type function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	for _, key := range []string{"tool_calls", "function_call"} {
		raw := keys[key]
		if isNull(raw) {
			continue
		}
		if m.role != "assistant" {
			return fmt.Errorf("the %s has %s: only the assistant calls", m.role, key)
		}
		var calls []struct {
			function
			Function *function `json:"function"`
		}
		list := raw
		if key == "function_call" {
			list = slices.Concat([]byte("["), raw, []byte("]"))
		}
		if json.Unmarshal(list, &calls) != nil {
			return fmt.Errorf("%s is %.40s: expected calls, each with the name of a function", key, raw)
		}
		for i, c := range calls {
			path := []any{key}
			if key == "tool_calls" {
				path = append(path, i)
			}
			if c.Function != nil {
				c.function, path = *c.Function, append(path, "function")
			}
			if c.Name == "" {
				return fmt.Errorf("%s: a call without the name of a function", key)
			}
			m.addPart(c.Name, append(slices.Clip(path), "name")...)
			if len(c.Arguments) > 0 {
				m.addArguments(c.Arguments, append(slices.Clip(path), "arguments"))
			}
		}
	}
	return nil
}

// addArguments adds the arguments of a call to the parts of a message: the names and values of an object, or any other
// value as it is.
func (m *message) addArguments(raw json.RawMessage, path []any) {
	var values map[string]json.RawMessage
	if json.Unmarshal(raw, &values) != nil {
		m.parts = append(m.parts, part{path: path})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at := append(slices.Clip(path), name)
		m.parts = append(m.parts, part{text: name, path: at, name: true}, part{path: at})
	}
}

// readThoughts adds the reasoning of a message to its parts. The reasoning may be under several keys.
func (m *message) readThoughts(keys map[string]json.RawMessage) error {
	for _, key := range []string{"reasoning_content", "reasoning", "thinking"} {
		thought, ok := textIn(keys[key])
		switch {
		case ok:
			m.addPart(thought, key)
		case !isNull(keys[key]):
			return fmt.Errorf("%s is %.40s: expected a text", key, keys[key])
		}
	}
	return nil
}

// unread lists the keys of images, videos and sounds, which this package does not support.
var unread = []string{"image", "images", "video", "videos", "audio", "audios"}

// checkRead returns an error for a record with a key that Read would ignore.
func checkRead(keys map[string]json.RawMessage) error {
	switch value := string(bytes.TrimSpace(keys["weight"])); value {
	case "", "null", "1", "1.0", "true":
	default:
		return fmt.Errorf(`"weight" is %.40s: expected 1: only messages have other weights`, value)
	}
	if !isEmpty(keys["functions"]) {
		return errors.New(`"functions" is not read: expected "tools"`)
	}
	return checkTexts(keys)
}

// checkTexts returns an error for a record or a message with one of the unread keys.
func checkTexts(keys map[string]json.RawMessage) error {
	for _, key := range unread {
		if !isEmpty(keys[key]) {
			return fmt.Errorf("%q is not read: expected texts alone", key)
		}
	}
	return nil
}

// learns reports whether a message is learnt. It returns an error for an invalid weight.
func learns(role string, keys map[string]json.RawMessage) (bool, error) {
	learn := role == "assistant"
	for _, key := range weightKeys {
		switch value := string(bytes.TrimSpace(keys[key])); value {
		case "", "null":
		case "0", "0.0", "false":
			learn = false
		case "1", "1.0", "true":
			if role != "assistant" {
				return false, fmt.Errorf("the %s has %s %s: only what the assistant says is learnt", role, key, value)
			}
		default:
			return false, fmt.Errorf("%s is %.40s: expected 0 or 1", key, value)
		}
	}
	return learn, nil
}

// joinParts returns the text of a content that is a list of texts, joined without separators.
func joinParts(raw json.RawMessage) (string, error) {
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return "", fmt.Errorf("content is %.40s: expected a text", raw)
	}
	var all strings.Builder
	for i, p := range parts {
		text, ok := textIn(p)
		if !ok {
			var keys map[string]json.RawMessage
			if json.Unmarshal(p, &keys) != nil || keys == nil {
				return "", fmt.Errorf("content[%d] is %.40s: expected a text", i, p)
			}
			if kind, _ := textIn(keys["type"]); kind != "text" {
				return "", fmt.Errorf("content[%d] is of type %q: expected text", i, kind)
			}
			if text, ok = textIn(keys["text"]); !ok {
				return "", fmt.Errorf("content[%d] has no text", i)
			}
		}
		all.WriteString(text)
	}
	return all.String(), nil
}

// toolsIn returns the tools of a record: a JSON list, or a text that contains a JSON list. It
// returns nil if there are no tools.
func toolsIn(keys map[string]json.RawMessage) (json.RawMessage, error) {
	raw := keys["tools"]
	if text, ok := textIn(raw); ok {
		raw = json.RawMessage(text)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || isNull(raw) {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf(`"tools" is %.40s: expected a list of functions`, raw)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return raw, nil
}

// render makes a sample of messages with the chat template. It marks the messages of the assistant
// with an index ≥ first as learnt. The text before an answer includes the generation prompt, so
// that a model sees the same tokens when it answers.
func (r *reader) render(messages []message, tools json.RawMessage, first int) (s Sample, err error) {
	g, last := growing{encoder: r.encoder}, 0 // the text in s, and the number of messages in it
	for i, m := range messages {
		if m.role != "assistant" || i < first {
			continue
		}
		before, err := r.chat(messages[:i], tools, true)
		if err != nil {
			return s, fmt.Errorf("message %d: the text before it: %w", i, err)
		}
		after, err := r.chat(messages[:i+1], tools, false)
		if err != nil {
			return s, fmt.Errorf("message %d: %w", i, err)
		}
		if !strings.HasPrefix(before, g.text) || !strings.HasPrefix(after, before) {
			return s, fmt.Errorf("message %d: the chat template rewrites what stands before it: only a conversation "+
				"whose text grows can be learnt", i)
		}
		s.add(g.extend(before), false)
		s.add(g.extend(after), m.learn)
		last = i + 1
	}
	s.begin()
	return s, r.checkWritten(messages[:last], tools, g.text, false)
}

// checkWritten returns an error if a chat template leaves out parts of messages. The argument text is what the template
// wrote. The argument prompt says whether the text ends with the beginning of an answer.
func (r *reader) checkWritten(messages []message, tools json.RawMessage, text string, prompt bool) error {
	chat := func(messages []message) (string, error) { return r.chat(messages, tools, prompt) }
	text = withoutSpace(text)
	texts := []string{withoutSpace(string(tools))}
	for _, m := range messages {
		for _, p := range m.parts {
			texts = append(texts, withoutSpace(p.text))
		}
	}
	given := strings.Join(texts, " ")
	marked, n := "", 0 // the text with marks in place of all parts, and the number of a part
	for i, m := range messages {
		for _, p := range m.parts {
			plain := texts[n+1]
			there := strings.Contains(text, plain) || strings.Contains(text, withoutSpace(escaped(p.text)))
			byChance := len(plain) < 20 || strings.Count(given, plain) > 1
			if byChance && marked == "" {
				marked, _ = chat(marking(messages, func(int) bool { return true }, false))
				marked += " " // after an error, each part is tried alone
			}
			if !there || byChance && !(mark{n: n}).in(marked) && !writes(messages, n, p.text == "", chat) {
				return fmt.Errorf("message %d: the chat template does not write all that the %s says: %s", i, m.role,
					p.describe())
			}
			n++
		}
	}
	if tools == nil {
		return nil
	}
	// If the template fails without the tools, it reads them.
	if without, err := r.chat(messages, nil, prompt); err == nil && withoutSpace(without) == text {
		return errors.New(`"tools": the chat template does not write them`)
	}
	return nil
}

// describe returns the text of a part, or its place if it is an argument.
func (p *part) describe() string {
	if p.text == "" {
		return strings.Trim(fmt.Sprint(p.path), "[]")
	}
	return fmt.Sprintf("%.60q", p.text)
}

// escaped returns a text as the content of a JSON string. A template may write a tool's answer in this form.
func escaped(text string) string {
	text = strings.NewReplacer("\u2028", "", "\u2029", "").Replace(text) // white space that only Go escapes
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		panic(err) // cannot happen for a text
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

// writes reports whether the template writes part n of messages. It puts a mark in place of the part and looks for the
// mark, because the text of the part may also occur elsewhere by chance. A template may write a value in another form.
// So if isValue is true, it is enough that the mark changes the text.
func writes(messages []message, n int, isValue bool, chat func([]message) (string, error)) bool {
	marked, err := chat(marking(messages, func(k int) bool { return k == n }, true))
	if err != nil || (mark{n: n}).in(marked) {
		return true
	}
	unmarked, err := chat(marking(messages, func(int) bool { return false }, true))
	return isValue && err == nil && marked != unmarked
}

// marking returns messages with marks in place of some parts. It marks the parts for whose number the given function
// returns true. The argument alone becomes a field of the marks.
func marking(messages []message, which func(n int) bool, alone bool) []message {
	messages, n := slices.Clone(messages), 0
	for i := range messages {
		m := &messages[i]
		var keys any
		_ = json.Unmarshal(m.raw, &keys)             // it was read before
		for k, p := range slices.Backward(m.parts) { // a value comes before its name
			if which(n + k) {
				mark{n + k, alone}.replace(keys, p.path, p.name)
			}
		}
		m.raw, n = encoded(keys), n+len(m.parts)
	}
	return messages
}

// A mark is a text, or a number, that does not occur in real messages. It takes the place of part n.
type mark struct {
	n     int
	alone bool // it is the only mark, so true becomes false, and false true; otherwise both become the text
}

func (k mark) text() string { return fmt.Sprintf("5f1d2c9e-part-%d-8a40", k.n) }

func (k mark) number() int { return 5912736400 + k.n }

// in reports whether a text has the mark.
func (k mark) in(text string) bool {
	return strings.Contains(text, k.text()) || strings.Contains(text, fmt.Sprint(k.number()))
}

// replace puts the mark into a JSON value and returns the result. The mark replaces the value at path or, if name is
// true, the last key of path.
func (k mark) replace(v any, path []any, name bool) any {
	if len(path) == 0 {
		return k.value(v)
	}
	switch v := v.(type) {
	case []any:
		at, _ := path[0].(int)
		v[at] = k.replace(v[at], path[1:], name)
	case map[string]any:
		key, _ := path[0].(string)
		if len(path) > 1 || !name {
			v[key] = k.replace(v[key], path[1:], name)
		} else {
			v[k.text()] = v[key]
			delete(v, key)
		}
	}
	return v
}

// value returns a value of the type of v with marks in it.
func (k mark) value(v any) any {
	switch v := v.(type) {
	case float64:
		return k.number()
	case bool:
		if k.alone {
			return !v
		}
	case []any:
		for i := range v {
			v[i] = k.value(v[i])
		}
		if len(v) > 0 {
			return v
		}
	case map[string]any:
		for key := range v {
			v[key] = k.value(v[key])
		}
		if len(v) > 0 {
			return v
		}
	}
	return k.text()
}

func withoutSpace(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, text)
}

func (r *reader) chat(messages []message, tools json.RawMessage, prompt bool) (string, error) {
	raw := make([]json.RawMessage, len(messages))
	for i, m := range messages {
		raw[i] = m.raw
	}
	list, err := json.Marshal(raw)
	if err != nil {
		return "", err
	}
	return r.Chat.Render(tokenizer.Chat{Messages: list, Tools: tools, GenerationPrompt: prompt})
}

// said returns a message with the given role and content.
func said(role, content string) message {
	raw := encoded(tokenizer.Message{Role: role, Content: content})
	m := message{raw: raw, role: role, text: content, learn: role == "assistant"}
	m.addPart(content, "content")
	return m
}

// textIn returns the value of a JSON string. For any other JSON, ok is false.
func textIn(raw json.RawMessage) (text string, ok bool) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	return text, json.Unmarshal(raw, &text) == nil
}

// isNull reports whether a value is null or missing.
func isNull(raw json.RawMessage) bool {
	raw = bytes.TrimSpace(raw)
	return len(raw) == 0 || string(raw) == "null"
}

// isEmpty reports whether a value is missing or empty.
func isEmpty(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", `""`, "[]", "{}":
		return true
	}
	return false
}

// encoded returns the JSON of a string, of a struct of strings, or of a value that was read from JSON.
func encoded(texts any) json.RawMessage {
	raw, err := json.Marshal(texts)
	if err != nil {
		panic(err) // cannot happen for such values
	}
	return raw
}
