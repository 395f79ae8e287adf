package text

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
)

// A Sample is a text to learn from.
type Sample struct {
	IDs []int32
	// Learn marks the tokens to be predicted. The first never is one.
	Learn  []bool
	Source *Source // nil without Format.Sources, and of conversations
}

// A Source is what a sample was made of.
type Source struct {
	Prompt  string   // as the line has it; a list of messages as the chat template writes it
	Answers []string // all that the line has
}

// Targets returns how many tokens of s are to be predicted.
func (s Sample) Targets() int {
	n := 0
	for _, learn := range s.Learn {
		if learn {
			n++
		}
	}
	return n
}

// A Format says how lines become samples.
type Format struct {
	Tokenizer *tokenizer.Tokenizer
	// Prompt and Answer are the keys of a line. A prompt is a text, or with Chat a text or a list of
	// messages. An answer is a text; of a list the first is taken.
	Prompt, Answer string
	// Messages is the key of a whole conversation, in lines that have it. The words of the assistant
	// are learnt. It needs Chat.
	Messages string
	Chat     *tokenizer.ChatTemplate // nil: prompts are written as they are
	EOS      int32                   // ends every answer without Chat; -1: nothing does
	Vocab    int                     // ids of the model; a token beyond them is an error
	Length   int                     // tokens of a sample at most
	Drop     bool                    // longer samples are left out; else they are an error
	Sources  bool                    // samples have a Source
}

// A Dataset is the samples of some files, in their order.
type Dataset struct {
	Samples []Sample
	Dropped int // samples that were too long
	// Hash is of all tokens, and of which of them are learnt.
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

// Bytes returns the memory that the samples take.
func (d *Dataset) Bytes() int {
	n := 0
	for _, s := range d.Samples {
		n += 5*len(s.IDs) + 56
		if s.Source != nil {
			n += len(s.Source.Prompt) + 40
			for _, a := range s.Source.Answers {
				n += len(a) + 16
			}
		}
	}
	return n
}

// Read reads files of JSON lines. The error names the file and the line of the first sample that
// cannot be learnt from. Files without a sample are an error.
func Read(paths []string, f Format) (*Dataset, error) {
	r := &reader{Format: f, encoder: f.Tokenizer.NewEncoder()}
	for _, path := range paths {
		if err := r.file(path); err != nil {
			return nil, err
		}
	}
	d := &r.Dataset
	if len(d.Samples) == 0 {
		if d.Dropped > 0 {
			return nil, fmt.Errorf("%v: all %d samples are longer than %d tokens", paths, d.Dropped, f.Length)
		}
		return nil, fmt.Errorf("%v: no sample: expected lines of JSON", paths)
	}
	d.Hash = hash(d.Samples)
	return d, nil
}

func hash(samples []Sample) uint64 {
	h := fnv.New64a()
	var b []byte
	for _, s := range samples {
		b = append(b[:0], 0xff)
		for i, id := range s.IDs {
			learn := byte(0)
			if s.Learn[i] {
				learn = 1
			}
			b = append(b, byte(id), byte(id>>8), byte(id>>16), byte(id>>24), learn)
		}
		h.Write(b)
	}
	return h.Sum64()
}

type reader struct {
	Format
	Dataset
	encoder *tokenizer.Encoder
}

// byteOrderMark begins the files of some editors.
const byteOrderMark = "\ufeff"

func (r *reader) file(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	in := bufio.NewReader(file)
	if mark, _ := in.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = in.Discard(len(byteOrderMark)) // they are in the buffer
	}
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := r.line(line); err != nil {
				return fmt.Errorf("%s:%d: %w", path, number, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

func (r *reader) line(line []byte) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(line, &keys); err != nil {
		return fmt.Errorf("expected a JSON object: %w", err)
	}
	var s Sample
	var err error
	if messages, ok := keys[r.Messages]; ok && r.Messages != "" {
		s, err = r.conversation(messages)
	} else {
		s, err = r.pair(keys)
	}
	if err != nil {
		return err
	}
	for i, id := range s.IDs {
		if id < 0 || int(id) >= r.Vocab {
			return fmt.Errorf("token %d is %d: the model knows %d", i, id, r.Vocab)
		}
	}
	switch {
	case s.Targets() == 0:
		return errors.New("nothing to learn: expected an answer")
	case len(s.IDs) <= r.Length:
		r.Samples = append(r.Samples, s)
	case r.Drop:
		r.Dropped++
	default:
		return fmt.Errorf("%d tokens: expected at most %d", len(s.IDs), r.Length)
	}
	return nil
}

// pair makes a sample of a prompt and an answer.
func (r *reader) pair(keys map[string]json.RawMessage) (s Sample, err error) {
	for _, key := range []string{r.Prompt, r.Answer} {
		if _, ok := keys[key]; !ok {
			return s, fmt.Errorf("no key %q", key)
		}
	}
	answers, err := answersIn(keys[r.Answer])
	if err != nil {
		return s, fmt.Errorf("%q: %w", r.Answer, err)
	}
	answer := answers[0]
	if r.Chat == nil {
		var prompt string
		if json.Unmarshal(keys[r.Prompt], &prompt) != nil {
			return s, fmt.Errorf("%q: expected a text (lists of messages need data.apply_chat_template)", r.Prompt)
		}
		if r.Sources {
			s.Source = &Source{Prompt: prompt, Answers: answers}
		}
		ids := r.encoder.EncodeSequence(nil, prompt)
		s.add(ids, false)
		s.add(r.encoder.Encode(nil, answer), true)
		if r.EOS >= 0 {
			s.add([]int32{r.EOS}, true)
		}
		s.begin()
		return s, nil
	}
	var messages []json.RawMessage
	var prompt string
	if json.Unmarshal(keys[r.Prompt], &prompt) == nil {
		messages = []json.RawMessage{message("user", prompt)}
	} else if json.Unmarshal(keys[r.Prompt], &messages) != nil {
		return s, fmt.Errorf("%q: expected a text or a list of messages", r.Prompt)
	}
	s, err = r.render(append(messages, message("assistant", answer)), len(messages))
	if err != nil || !r.Sources {
		return s, err
	}
	if prompt == "" {
		prompt, err = r.chat(messages, true)
	}
	s.Source = &Source{Prompt: prompt, Answers: answers}
	return s, err
}

// answersIn reads a text, or a list of them.
func answersIn(raw json.RawMessage) (answers []string, err error) {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return []string{one}, nil
	}
	if json.Unmarshal(raw, &answers) == nil && len(answers) > 0 {
		return answers, nil
	}
	return nil, errors.New("expected a text, or a list of texts")
}

func message(role, content string) json.RawMessage {
	text, err := json.Marshal(tokenizer.Message{Role: role, Content: content})
	if err != nil {
		panic(err) // two texts
	}
	return text
}

// conversation makes a sample of messages.
func (r *reader) conversation(raw json.RawMessage) (Sample, error) {
	if r.Sources {
		return Sample{}, fmt.Errorf("%q: a conversation is no prompt: expected the keys %q and %q", r.Messages,
			r.Prompt,
			r.Answer)
	}
	if r.Chat == nil {
		return Sample{}, fmt.Errorf("%q: a conversation needs data.apply_chat_template", r.Messages)
	}
	var messages []json.RawMessage
	if err := json.Unmarshal(raw, &messages); err != nil {
		return Sample{}, fmt.Errorf("%q: expected a list of messages: %w", r.Messages, err)
	}
	return r.render(messages, 0)
}

// render writes messages as the template does, and learns what the assistant says in those from
// index first on. The text before an answer is the one that the template writes with a generation prompt,
// so that a model meets the same tokens when it answers.
func (r *reader) render(messages []json.RawMessage, first int) (s Sample, err error) {
	done := "" // the text that s holds
	for i, raw := range messages {
		var m struct {
			Role string `json:"role"`
		}
		if err := json.Unmarshal(raw, &m); err != nil || m.Role == "" {
			return s, fmt.Errorf("message %d: expected an object with role and content", i)
		}
		if m.Role != "assistant" || i < first {
			continue
		}
		before, err := r.chat(messages[:i], true)
		if err != nil {
			return s, err
		}
		after, err := r.chat(messages[:i+1], false)
		if err != nil {
			return s, err
		}
		if !hasPrefix(before, done) || !hasPrefix(after, before) {
			return s, fmt.Errorf("message %d: the chat template rewrites what stands before it: only a conversation "+
				"whose text grows can be learnt", i)
		}
		s.add(r.encoder.Encode(nil, before[len(done):]), false)
		s.add(r.encoder.Encode(nil, after[len(before):]), true)
		done = after
	}
	s.begin()
	return s, nil
}

func hasPrefix(text, prefix string) bool {
	return len(text) >= len(prefix) && text[:len(prefix)] == prefix
}

func (r *reader) chat(messages []json.RawMessage, prompt bool) (string, error) {
	list, err := json.Marshal(messages)
	if err != nil {
		return "", err
	}
	return r.Chat.Render(tokenizer.Chat{Messages: list, GenerationPrompt: prompt})
}

// add appends tokens, to be learnt or not.
func (s *Sample) add(ids []int32, learn bool) {
	s.IDs = append(s.IDs, ids...)
	for range ids {
		s.Learn = append(s.Learn, learn)
	}
}

// begin marks the first token as one that nothing predicts.
func (s *Sample) begin() {
	if len(s.Learn) > 0 {
		s.Learn[0] = false
	}
}
