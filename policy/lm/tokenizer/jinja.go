package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	statement "github.com/nikolalohinski/gonja/v2/builtins/control_structures"
	engine "github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
)

// A jinja is a template in the Jinja language, run by gonja. gonja has bugs in features that chat templates use: its
// JSON sorts keys and escapes characters, rstrip() and replace(a, b) are wrong, and a list of one item has no [-1].
// jinja_methods.go, jinja_functions.go and jinja_values.go replace these features. Templates cannot read files. An
// endless loop in a template is not stopped.
type jinja struct {
	template *exec.Template
}

// maxTemplate is the maximum length of a source in bytes, and maxBrackets is the maximum depth of its brackets. The
// limits are necessary because gonja's parser is recursive. The largest published templates have about 30,000 bytes.
const (
	maxTemplate = 1 << 17
	maxBrackets = 1000
)

func parseJinja(source string) (j *jinja, err error) {
	if len(source) > maxTemplate {
		return nil, fmt.Errorf("%d bytes: expected at most %d", len(source), maxTemplate)
	}
	if n := brackets(source); n > maxBrackets {
		return nil, fmt.Errorf("%d open brackets: expected at most %d", n, maxBrackets)
	}
	defer recoverAs(&err)
	source = plainSource(source)
	const name = "/template"
	loader, err := loaders.NewMemoryLoader(map[string]string{name: source})
	if err != nil {
		return nil, err
	}
	settings := engine.New()
	settings.TrimBlocks, settings.LeftStripBlocks = true, true
	functions := map[string]any{"namespace": namespace, "range": numbersFrom, "dict": dictOf}
	template, err := exec.NewTemplate(name, settings, loader, &exec.Environment{
		Context:           exec.NewContext(functions),
		Filters:           filters(),
		Tests:             tests(),
		ControlStructures: statements(),
		Methods:           methods(),
	})
	if err != nil {
		// gonja's message begins with the whole source.
		return nil, errors.New(strings.TrimPrefix(err.Error(), "failed to parse template '"+source+"': "))
	}
	return &jinja{template}, nil
}

// brackets returns the greatest depth of open brackets.
func brackets(source string) int {
	open, deepest := 0, 0
	for _, b := range []byte(source) {
		switch b {
		case '(', '[', '{':
			open++
			deepest = max(deepest, open)
		case ')', ']', '}':
			open = max(0, open-1)
		}
	}
	return deepest
}

// recoverAs turns a panic of gonja into an error. Invalid templates can cause panics.
func recoverAs(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the template engine: %v", p)
	}
}

func (j *jinja) render(chat Chat, tokens config) (text string, err error) {
	defer recoverAs(&err)
	if len(chat.Messages) == 0 {
		return "", errors.New("messages: missing: expected a list")
	}
	values := map[string]any{
		"bos_token": tokens.bos, "eos_token": tokens.eos, "unk_token": tokens.unk, "pad_token": tokens.pad,
		"add_generation_prompt": chat.GenerationPrompt, "documents": none,
	}
	given := map[string]json.RawMessage{"messages": chat.Messages, "tools": chat.Tools}
	maps.Copy(given, chat.Variables)
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if values[name], err = fromJSON(given[name]); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
	}
	var refusal *TemplateError
	values["raise_exception"] = func(args *exec.VarArgs) (*exec.Value, error) {
		refusal = &TemplateError{args.First().String()}
		return nil, refusal
	}
	if !chat.Now.IsZero() {
		values["strftime_now"] = func(args *exec.VarArgs) (*exec.Value, error) {
			text, err := strftime(chat.Now, args.First().String())
			return exec.AsValue(text), err
		}
	}
	running := new(calls)
	values[callsName] = running
	text, err = j.template.ExecuteToString(exec.NewContext(values))
	if refusal != nil {
		return "", refusal
	}
	if err != nil && running.err != nil { // err would name every nested call
		return "", running.err
	}
	return text, err
}

// statements returns the tags that templates may use. None of them reads other templates. The tag "generation" marks
// the text of the model, without changing the text.
func statements() *exec.ControlStructureSet {
	set := map[string]parser.ControlStructureParser{"macro": parseMacro, "generation": parseGeneration}
	for _, name := range []string{"if", "for", "set", "call", "filter", "with", "do", "raw", "break", "continue"} {
		set[name], _ = builtins.ControlStructures.Get(name)
	}
	return exec.NewControlStructureSet(set)
}

// A generation is the part of a template between {% generation %} and {% endgeneration %}.
type generation struct{ *nodes.Wrapper }

func parseGeneration(p, args *parser.Parser) (nodes.ControlStructure, error) {
	if !args.End() {
		return nil, errors.New("generation takes no arguments")
	}
	body, _, err := p.WrapUntil("endgeneration")
	return generation{body}, err
}

func (g generation) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return r.ExecuteIfWrapper(g.Wrapper)
}

// A macro is gonja's macro with a limit on the depth of calls.
type macro struct{ *nodes.Macro }

// calls counts the macro calls that have not returned.
type calls struct {
	n   int
	err error // set if there were more than maxCalls
}

const (
	callsName = "macro calls" // key of calls in the template's values; templates cannot use a name with a space
	maxCalls  = 100
)

func parseMacro(p, args *parser.Parser) (nodes.ControlStructure, error) {
	parse, _ := builtins.ControlStructures.Get("macro")
	parsed, err := parse(p, args)
	if err != nil {
		return nil, err
	}
	return macro{parsed.(*statement.MacroControlStructure).Macro}, nil
}

func (m macro) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	call, err := exec.MacroNodeToFunc(m.Macro, r)
	if err != nil {
		return err
	}
	value, _ := r.Environment.Context.Get(callsName)
	running := value.(*calls)
	r.Environment.Context.Set(m.Name, exec.Macro(func(args *exec.VarArgs) *exec.Value {
		if running.n == maxCalls {
			running.err = fmt.Errorf("macro %s: more than %d nested calls", m.Name, maxCalls)
			return exec.AsValue(running.err)
		}
		running.n++
		defer func() { running.n-- }()
		return call(args)
	}))
	return nil
}
