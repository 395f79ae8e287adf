package text

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// A Sample is a tokenized text to learn from, or a tokenized prompt.
type Sample struct {
	IDs []int32
	// Learn marks the tokens that the model learns to predict. The first token is never marked.
	Learn  []bool
	Source *Origin // for a prompt; nil for a text to learn from
}

// An Origin says where a prompt comes from and what its right answers are.
type Origin struct {
	Prompt  string   // the prompt of the record; for a list of messages, the text that the chat template writes
	Answers []string // all answers of the record
	Tokens  []int32  // tokens of the first answer after the prompt, with the end token
	File    string
	Line    int // first line of the record, or its row in a Parquet file
}

// Targets returns the number of tokens that Learn marks.
func (s Sample) Targets() int {
	n := 0
	for _, learn := range s.Learn {
		if learn {
			n++
		}
	}
	return n
}

// A Format defines how records become samples.
type Format struct {
	Tokenizer *tokenizer.Tokenizer
	// Prompt and Answer are the keys of the prompt and the answer in a record. A prompt is a text;
	// with Chat, it may also be a list of messages. An answer is a text, or a list whose first text
	// is learnt.
	Prompt, Answer string
	// Messages is the key of a conversation, in records that have one. The messages of the
	// assistant are learnt. Conversations need Chat.
	Messages string
	Chat     *tokenizer.ChatTemplate // if nil, prompts are tokenized unchanged
	EOS      int32                   // token that ends every answer if Chat is nil; -1 for none
	Vocab    int                     // number of token ids of the model; a larger id is an error
	Length   int                     // maximum number of tokens of a text to learn from
	Drop     bool                    // if true, longer texts are left out; otherwise they are an error
	// If Prompts is true, a sample is a prompt alone, of any length, and has an Origin. A record must have Prompt and
	// Answer, or the keys of Alpaca.
	Prompts bool
}

// A Dataset holds the samples of a list of files, in the order of the files.
type Dataset struct {
	Samples []Sample
	Dropped int // samples that were too long
	// Hash is a hash of the tokens and the Learn marks of all samples, and of the right answers to prompts.
	Hash uint64
}

// Longest returns the number of tokens of the longest sample.
func (d *Dataset) Longest() int {
	n := 0
	for _, s := range d.Samples {
		n = max(n, len(s.IDs))
	}
	return n
}

// Bytes returns the approximate size of the samples in memory, in bytes.
func (d *Dataset) Bytes() int {
	n := 0
	for _, s := range d.Samples {
		n += 5*len(s.IDs) + 56
		if s.Source != nil {
			n += len(s.Source.Prompt) + 4*len(s.Source.Tokens) + 88
			for _, a := range s.Source.Answers {
				n += len(a) + 16
			}
		}
	}
	return n
}

// Read reads files of JSON lines or of a JSON list, plain or compressed with gzip, and Parquet files. It changes no
// text. Errors name the file and the line, or the row, of an invalid record: see TooLongError and MissingKeyError.
// Files without any sample are an error, too. A record has one of these forms, tried in this order:
//
//	{"messages": [{"role": "user", "content": "…"}, …]}                     the key Format.Messages
//	{"conversations": [{"from": "human", "value": "…"}, …]}                 ShareGPT's
//	{"instruction": "…", "input": "…", "output": "…"}                       Alpaca's
//	{"prompt": "…", "answer": "…"}                                          the keys Format.Prompt and Format.Answer
//
// Each record may have "system" and "tools". Messages may have "tool_calls". A message of the
// assistant with weight 0 is not learnt. If a content is a list of texts, Read joins them.
func Read(paths []string, f Format) (*Dataset, error) {
	r := &reader{Format: f, encoder: f.Tokenizer.NewEncoder()}
	for _, path := range paths {
		err := eachRecord(path, func(line int, record []byte) error { return r.record(path, line, record) })
		if err != nil {
			return nil, err
		}
	}
	d := &r.Dataset
	if r.long.Tokens > 0 {
		return nil, &r.long
	}
	if len(d.Samples) == 0 {
		if d.Dropped > 0 {
			return nil, fmt.Errorf("%v: all %d samples are longer than %d tokens", paths, d.Dropped, f.Length)
		}
		return nil, fmt.Errorf("%v: no sample: expected lines of JSON", paths)
	}
	d.Hash = hash(d.Samples)
	return d, nil
}

// A TooLongError says that texts are longer than Format.Length. It names the longest.
type TooLongError struct {
	Path           string
	Line           int
	Tokens, Length int // of the longest text, and at most
	Count          int // texts that are too long
}

func (e *TooLongError) Error() string {
	text := fmt.Sprintf("%s:%d: %d tokens: expected at most %d", e.Path, e.Line, e.Tokens, e.Length)
	if e.Count > 1 {
		text += fmt.Sprintf(" (%d texts are longer)", e.Count)
	}
	return text
}

// A MissingKeyError says that a record has none of the forms that Read lists. Keys has Format.Prompt or Format.Answer,
// or both.
type MissingKeyError struct {
	Keys  []string
	Has   []string // the keys of the record, sorted
	First bool     // it is the first record
}

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf(`no key "%s": the record has %s`, strings.Join(e.Keys, `" and no key "`),
		strings.Join(e.Has, ", "))
}

// A NoTemplateError says that a record has messages, and Format.Chat is nil.
type NoTemplateError struct{ text string }

func (e *NoTemplateError) Error() string { return e.text }

func hash(samples []Sample) uint64 {
	h := fnv.New64a()
	var b []byte
	for _, s := range samples {
		b = append(b[:0], 0xff)
		if s.Source != nil {
			s.add(s.Source.Tokens, true)
		}
		for i, id := range s.IDs {
			learn := byte(0)
			if s.Learn[i] {
				learn = 1
			}
			b = append(binary.LittleEndian.AppendUint32(b, uint32(id)), learn)
		}
		h.Write(b)
	}
	return h.Sum64()
}

type reader struct {
	Format
	Dataset
	encoder *tokenizer.Encoding
	long    TooLongError
}

// record parses a record, a JSON object, and adds its sample.
func (r *reader) record(path string, line int, record []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(record, &keys); err != nil {
		return fmt.Errorf("expected a JSON object: %w", err)
	}
	s, err := r.sample(keys)
	if err != nil {
		return err
	}
	if s.Source != nil {
		s.Source.File, s.Source.Line = path, line
	}
	for i, id := range s.IDs {
		if id < 0 || int(id) >= r.Vocab {
			return fmt.Errorf("token %d is %d: the model knows %d", i, id, r.Vocab)
		}
	}
	switch {
	case len(s.IDs) == 0:
		return errors.New("no token: expected a text")
	case s.Source == nil && s.Targets() == 0:
		return errors.New("nothing to learn: expected an answer")
	case s.Source != nil || len(s.IDs) <= r.Length:
		r.Samples = append(r.Samples, s)
	case r.Drop:
		r.Dropped++
	default:
		count := r.long.Count + 1
		if len(s.IDs) > r.long.Tokens {
			r.long = TooLongError{Path: path, Line: line, Tokens: len(s.IDs), Length: r.Length}
		}
		r.long.Count = count
	}
	return nil
}

// sample makes a sample of a record in any of the forms that Read lists.
func (r *reader) sample(keys map[string]json.RawMessage) (Sample, error) {
	has := func(key string) bool { _, ok := keys[key]; return ok }
	isPair, isAlpaca := has(r.Prompt) || has(r.Answer), has("instruction") && has("output")
	if err := checkRead(keys); err != nil {
		return Sample{}, err
	}
	switch {
	case !r.Prompts && r.Messages != "" && !isNull(keys[r.Messages]):
		return r.conversation(r.Messages, keys)
	case !r.Prompts && !isPair && !isNull(keys["conversations"]):
		return r.conversation("conversations", keys)
	case isAlpaca && (!isPair || r.Prompt == "instruction" && r.Answer == "output"):
		return r.alpaca(keys)
	}
	var missing []string
	for _, key := range []string{r.Prompt, r.Answer} {
		if !has(key) {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return Sample{}, &MissingKeyError{Keys: missing, Has: slices.Sorted(maps.Keys(keys)),
			First: len(r.Samples)+r.Dropped+r.long.Count == 0}
	}
	answers, err := answersIn(keys[r.Answer])
	if err != nil {
		return Sample{}, fmt.Errorf("%q: %w", r.Answer, err)
	}
	prompt, isText := textIn(keys[r.Prompt])
	switch {
	case isText:
		return r.pair(prompt, []message{said("user", prompt)}, keys, answers)
	case r.Chat == nil:
		return Sample{}, &NoTemplateError{fmt.Sprintf("%q is %.40s: expected a text in quotes (lists of messages need "+
			"data.apply_chat_template)", r.Prompt, keys[r.Prompt])}
	case isNull(keys[r.Prompt]):
		return Sample{}, fmt.Errorf("%q is null: expected a text or a list of messages", r.Prompt)
	}
	messages, err := messagesIn(keys[r.Prompt])
	if err != nil {
		return Sample{}, fmt.Errorf("%q: %w", r.Prompt, err)
	}
	return r.pair("", messages, keys, answers)
}

// pair makes a sample of a prompt and its answers. The map keys holds the whole record. If Chat is not nil, the prompt
// is in messages.
func (r *reader) pair(prompt string, messages []message, keys map[string]json.RawMessage, answers []string) (s Sample,
	err error) {
	tools, err := toolsIn(keys)
	if err != nil {
		return s, err
	}
	if r.Prompts && !slices.ContainsFunc(messages, message.says) {
		return s, errors.New("the prompt is empty: expected a text")
	}
	if messages, err = r.addSystem(messages, keys); err != nil {
		return s, err
	}
	switch {
	case r.Chat == nil && tools != nil:
		return s, &NoTemplateError{`"tools" need data.apply_chat_template`}
	case r.Prompts:
		return r.prompt(prompt, messages, tools, answers)
	case r.Chat != nil:
		return r.render(append(messages, said("assistant", answers[0])), tools, len(messages))
	}
	g := growing{encoder: r.encoder}
	g.begin()
	s.add(g.ids, false)
	s.add(g.extend(prompt), false)
	s.add(g.extend(prompt+answers[0]), true)
	if r.EOS >= 0 {
		s.add([]int32{r.EOS}, true)
	}
	s.begin()
	return s, nil
}

// prompt makes a sample of a prompt alone. The answers are in its Origin.
func (r *reader) prompt(prompt string, messages []message, tools json.RawMessage, answers []string) (s Sample,
	err error) {
	text, g := prompt, growing{encoder: r.encoder}
	if r.Chat == nil {
		g.begin()
	} else {
		if text, err = r.chat(messages, tools, true); err != nil {
			return s, err
		}
		if err := r.checkWritten(messages, tools, text, true); err != nil {
			return s, err
		}
		if prompt == "" || len(messages) > 1 || tools != nil {
			prompt = text
		}
	}
	g.extend(text)
	s.add(g.ids, false)
	s.Source = &Origin{Prompt: prompt, Answers: answers, Tokens: g.extend(text + answers[0])}
	if r.EOS >= 0 {
		s.Source.Tokens = append(s.Source.Tokens, r.EOS)
	}
	return s, nil
}

// answersIn reads an answer, or a list of answers.
func answersIn(raw json.RawMessage) (answers []string, err error) {
	if one, ok := textIn(raw); ok {
		return []string{one}, nil
	}
	if isNull(raw) {
		return nil, errors.New("it is null: expected a text, or a list of texts")
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil, fmt.Errorf("it is %.40s: expected a text in quotes, or a list of texts", raw)
	}
	for i, raw := range list {
		text, ok := textIn(raw)
		if !ok {
			return nil, fmt.Errorf("item %d is %.40s: expected a text in quotes", i, raw)
		}
		answers = append(answers, text)
	}
	return answers, nil
}

// alpaca makes a sample of an instruction, an optional input below it, and an output.
func (r *reader) alpaca(keys map[string]json.RawMessage) (Sample, error) {
	texts := map[string]string{}
	for _, key := range []string{"instruction", "input"} {
		text, ok := textIn(keys[key])
		if !ok && (key == "instruction" || !isNull(keys[key])) {
			return Sample{}, fmt.Errorf("%q is %.40s: expected a text in quotes", key, keys[key])
		}
		texts[key] = text
	}
	if !isEmpty(keys["history"]) {
		return Sample{}, errors.New(`"history" is not read: expected a conversation, as messages`)
	}
	answers, err := answersIn(keys["output"])
	if err != nil {
		return Sample{}, fmt.Errorf(`"output": %w`, err)
	}
	prompt := texts["instruction"]
	if input := texts["input"]; input != "" {
		prompt += "\n" + input
	}
	return r.pair(prompt, []message{said("user", prompt)}, keys, answers)
}

// conversation makes a sample of the messages under a key.
func (r *reader) conversation(key string, keys map[string]json.RawMessage) (s Sample, err error) {
	if r.Chat == nil {
		return s, &NoTemplateError{fmt.Sprintf("%q: a conversation needs data.apply_chat_template", key)}
	}
	messages, err := messagesIn(keys[key])
	if err != nil {
		return s, fmt.Errorf("%q: %w", key, err)
	}
	if messages, err = r.addSystem(messages, keys); err != nil {
		return s, err
	}
	tools, err := toolsIn(keys)
	if err != nil {
		return s, err
	}
	return r.render(messages, tools, 0)
}

// addSystem inserts the text under the record's key "system" as the first message, if the record has such a text.
func (r *reader) addSystem(messages []message, keys map[string]json.RawMessage) ([]message, error) {
	raw := keys["system"]
	system, ok := textIn(raw)
	switch {
	case !ok && !isNull(raw):
		return nil, fmt.Errorf(`"system" is %.40s: expected a text`, raw)
	case system == "":
		return messages, nil
	case r.Chat == nil:
		return nil, &NoTemplateError{`"system" needs data.apply_chat_template`}
	case len(messages) == 0 || messages[0].role != "system":
		return slices.Insert(messages, 0, said("system", system)), nil
	case messages[0].text != system:
		return nil, errors.New(`"system" is another text than that of message 0: expected one of them`)
	}
	return messages, nil
}

// add appends tokens, and marks them in Learn if learn is true.
func (s *Sample) add(ids []int32, learn bool) {
	s.IDs = append(s.IDs, ids...)
	for range ids {
		s.Learn = append(s.Learn, learn)
	}
}

// begin clears the Learn mark of the first token, because no token precedes it.
func (s *Sample) begin() {
	if len(s.Learn) > 0 {
		s.Learn[0] = false
	}
}
