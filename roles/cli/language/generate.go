package language

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/lm/hf"
	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/urfave/cli/v2"
)

const generateUsage = "A prompt is --ids, each line of --prompts, or what a person types: one line, one answer."

func generateFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "prompts", Usage: "`FILE` with a prompt in each line; - is standard input"},
		&cli.BoolFlag{Name: "chat", Usage: "write prompts as the model's chat template does"},
		&cli.StringFlag{Name: "chat-template",
			Usage: "`NAME` of a chat template for --chat: one of the model's, or chatml, llama3, mistral or llama2"},
		args.Int(cli.IntFlag{Name: "max-new-tokens", Value: 128,
			Usage: "maximum number of new tokens in an answer"}, 1, args.MaxCount),
		args.Float(cli.Float64Flag{Name: "temperature", Value: 1,
			Usage: "of the distribution that tokens are sampled from; 0: the most likely token"}, 0, 1e6),
		args.Int(cli.IntFlag{Name: "top-k",
			Usage: "sample from this many of the most likely tokens; 0: from all"}, 0, args.MaxCount),
		args.Float(cli.Float64Flag{Name: "top-p", Value: 1,
			Usage: "sample from the most likely tokens whose probabilities sum to this"}, 1e-9, 1),
		args.Float(cli.Float64Flag{Name: "repetition-penalty", Value: 1,
			Usage: "above 1: repeat tokens less"}, 1e-6, 1e6),
		&cli.BoolFlag{Name: "ignore-eos", Usage: "continue after tokens that end a text"},
		&cli.Uint64Flag{Name: "seed", Value: 1, Usage: "seed of the random numbers"},
		args.Int(cli.IntFlag{Name: "max-running-requests", Value: 64,
			Usage: "answers to generate at the same time"}, 1, 1<<16),
		args.Int(cli.IntFlag{Name: "threads", Value: 1,
			Usage: "CPU cores to use; the answers do not depend on it"}, 1, 1<<12),
		args.Int(cli.IntFlag{Name: "cache-tokens", Usage: "size of the KV cache in tokens",
			DefaultText: "what the requests need, at most 16384"}, 1, args.MaxCount),
	}
}

// generate runs rlinf generate: it continues prompts and writes the answers.
func generate(ctx context.Context, c *cli.Context, m *dividedModel) error {
	if c.IsSet("ids") {
		ids, err := parseIDs(c, m.whole.Config.Vocab)
		if err != nil {
			return err
		}
		k, err := loadTokenizer(c)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintf(c.App.ErrWriter, "warning: %v: its end token ends no answer\n", err)
		}
		sampling, err := samplingOf(c, k, nil)
		if err != nil {
			return err
		}
		return continueIDs(ctx, c, m, ids, sampling)
	}
	w := &writer{c: c, model: m}
	var err error
	if w.tokens, err = loadTokenizer(c); err != nil {
		return err
	}
	if c.IsSet("chat-template") && !c.Bool("chat") {
		return config.Usagef("generate: --chat-template without --chat: expected both")
	}
	if c.Bool("chat") {
		if w.chat, err = w.tokens.ChatTemplate(c.String("chat-template")); err != nil {
			return config.Usagef("generate: --chat-template: %w", err)
		}
	}
	if w.sampling, err = samplingOf(c, w.tokens, w.chat); err != nil {
		return err
	}
	w.encoder = w.tokens.NewEncoder()
	if file := c.String("prompts"); file != "" {
		return w.answerFile(ctx, file)
	}
	return w.answerPerson(ctx)
}

// samplingOf returns the settings of answers. The tokenizer k is nil if there is none, and chat is nil without --chat.
func samplingOf(c *cli.Context, k *tokenizer.Tokenizer, chat *tokenizer.ChatTemplate) (engine.Sampling, error) {
	s := engine.Sampling{
		MaxTokens: c.Int("max-new-tokens"), Temperature: c.Float64("temperature"), TopK: c.Int("top-k"),
		TopP: c.Float64("top-p"), RepetitionPenalty: c.Float64("repetition-penalty"), Seed: c.Uint64("seed"),
	}
	if c.Bool("ignore-eos") {
		return s, nil
	}
	tokens, err := hf.ReadTokens(c.String("model"), c.String("adapter"))
	if err != nil {
		return s, config.UsageError{Err: err}
	}
	ends, warnings := plan.Ends(tokens.EOS, k, chat)
	for _, id := range ends {
		s.Stop = append(s.Stop, int32(id))
	}
	for _, w := range warnings {
		fmt.Fprintf(c.App.ErrWriter, "warning: %s\n", w)
	}
	return s, nil
}

// engineOptions returns the options of an engine for requests. The engine samples only ids below vocab, or all ids if
// vocab is 0.
func engineOptions(c *cli.Context, m *dividedModel, vocab int, requests []engine.Request) (engine.Options, error) {
	o := engine.Options{
		MaxRunning: c.Int("max-running-requests"), CacheTokens: c.Int("cache-tokens"), Threads: c.Int("threads"),
		Tokens: vocab,
	}
	if cores := runtime.NumCPU(); o.Threads > cores {
		fmt.Fprintf(c.App.ErrWriter, "warning: --threads %d: there are %d cores\n", o.Threads, cores)
	} else if parts := m.parts.Size(); parts > 1 && parts*o.Threads > cores {
		fmt.Fprintf(c.App.ErrWriter, "warning: --%s %d, each with --threads %d: there are %d cores\n", partsFlag,
			parts, o.Threads, cores)
	}
	if o.CacheTokens == 0 {
		longest, all := 0, 0
		for _, r := range requests {
			n := (len(r.Prompt) + r.Sampling.MaxTokens + lm.PageLen - 1) / lm.PageLen * lm.PageLen
			longest, all = max(longest, n), all+n
		}
		o.CacheTokens = max(lm.PageLen, longest, min(all, 1<<14))
	}
	bytes := config.Product(o.CacheTokens/lm.PageLen, m.whole.PageBytes())
	what := fmt.Sprintf("a cache of %d tokens (prompts and --max-new-tokens)", o.CacheTokens)
	return o, checkMemory(what, bytes)
}

// answers are the results of requests, and the time of their generation.
type answers struct {
	results []engine.Result
	took    time.Duration
}

// answer runs all requests on all parts of the model. Only the first part calls the functions of the Watch.
func (m *dividedModel) answer(ctx context.Context, c *cli.Context, vocab int, requests []engine.Request,
	show engine.Watch) (answers, error) {
	o, err := engineOptions(c, m, vocab, requests)
	if err != nil {
		return answers{}, err
	}
	return callParts(ctx, m, "generate", func(ctx context.Context, p *part) (a answers, err error) {
		o, watch := o, show
		o.Axis = p.line
		if p.line.Index() > 0 {
			watch = engine.Watch{}
		}
		e, err := engine.New(p.model, o)
		if err != nil {
			return a, config.UsageError{Err: err}
		}
		defer e.Close()
		start := time.Now()
		if a.results, err = e.Generate(ctx, requests, watch); err != nil {
			return a, config.UsageError{Err: err}
		}
		a.took = time.Since(start)
		return a, nil
	})
}

// answerAll runs all requests. Meanwhile it shows the number of generated tokens, and their maximum number.
func (m *dividedModel) answerAll(ctx context.Context, c *cli.Context, vocab int, requests []engine.Request) (answers,
	error) {
	progress, stop := args.Progress(c, "generation")
	defer stop()
	count, done, total := progress.Counter(), 0, 0
	for _, r := range requests {
		total += r.Sampling.MaxTokens
	}
	return m.answer(ctx, c, vocab, requests, engine.Watch{
		Token: func(int, int32) {
			done++
			count("generation", done, total)
		},
		Done: func(i int, r *engine.Result) error {
			total -= requests[i].Sampling.MaxTokens - len(r.Tokens) // these tokens will not come
			return nil
		},
	})
}

// continueIDs continues a prompt of ids, and writes the generated ids.
func continueIDs(ctx context.Context, c *cli.Context, m *dividedModel, ids []int32, s engine.Sampling) error {
	a, err := m.answerAll(ctx, c, 0, []engine.Request{{Prompt: ids, Sampling: s}})
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return json.NewEncoder(c.App.Writer).Encode(map[string][]int32{"ids": a.results[0].Tokens})
	}
	_, err = fmt.Fprintln(c.App.Writer, joined(a.results[0].Tokens))
	return err
}

// A writer continues prompts and writes the answers as text.
type writer struct {
	c        *cli.Context
	model    *dividedModel
	tokens   *tokenizer.Tokenizer
	encoder  *tokenizer.Encoding
	chat     *tokenizer.ChatTemplate // nil: no chat template
	sampling engine.Sampling
	prompts  uint64 // prompts so far; a prompt's number determines its random numbers
}

// request returns a request to continue prompt. It counts the prompt in w.prompts.
func (w *writer) request(prompt string) (engine.Request, error) {
	r := engine.Request{Sampling: w.sampling, Key: w.prompts}
	w.prompts++
	if w.chat == nil {
		r.Prompt = w.encoder.EncodePrompt(nil, prompt)
		return r, nil
	}
	messages := tokenizer.Messages(tokenizer.Message{Role: "user", Content: prompt})
	text, err := w.chat.Render(tokenizer.Chat{Messages: messages, GenerationPrompt: true})
	if err != nil {
		return r, config.UsageError{Err: err}
	}
	r.Prompt = w.encoder.Encode(nil, text)
	return r, nil
}

// answerFile generates the answers to all lines of a file in one batch.
func (w *writer) answerFile(ctx context.Context, name string) error {
	in := w.c.App.Reader
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return config.UsageError{Err: err}
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(in)
	if err != nil {
		return fmt.Errorf("read prompts: %w", err)
	}
	var lines []string
	var requests []engine.Request
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) { // without a byte-order mark
		line = strings.TrimRight(line, "\r\n")
		r, err := w.request(line)
		if err != nil {
			return err
		}
		if len(r.Prompt) == 0 {
			return config.Usagef("--prompts %s:%d: empty: expected a prompt in each line", name, len(lines)+1)
		}
		lines, requests = append(lines, line), append(requests, r)
	}
	if len(requests) == 0 {
		return config.Usagef("--prompts %s: no line: expected a prompt in each", name)
	}
	a, err := w.model.answerAll(ctx, w.c, w.tokens.Size(), requests)
	if err != nil {
		return err
	}
	n := 0
	for i, r := range a.results {
		n += len(r.Tokens)
		answer := w.tokens.DecodeText(trimStop(r, w.sampling.Stop))
		if w.c.Bool("json") {
			err = json.NewEncoder(w.c.App.Writer).Encode(map[string]any{"prompt": lines[i], "text": answer,
				"ids": r.Tokens})
		} else {
			_, err = fmt.Fprintf(args.Exact(w.c.App.Writer), "> %s\n%s\n\n", lines[i], answer)
		}
		if err != nil {
			return err
		}
	}
	w.speed(n, a.took)
	return nil
}

// trimStop returns the tokens of an answer without the stop token.
func trimStop(r engine.Result, stop []int32) []int32 {
	if n := len(r.Tokens); n > 0 && slices.Contains(stop, r.Tokens[n-1]) {
		return r.Tokens[:n-1]
	}
	return r.Tokens
}

// answerPerson reads prompts from standard input, one in each line, and writes each answer while it is generated.
func (w *writer) answerPerson(ctx context.Context) error {
	lines := bufio.NewReader(w.c.App.Reader)
	for {
		fmt.Fprint(w.c.App.ErrWriter, "> ")
		line, err := lines.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			if err := w.stream(ctx, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(w.c.App.ErrWriter)
			return nil
		} else if err != nil {
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

func (w *writer) stream(ctx context.Context, prompt string) error {
	r, err := w.request(prompt)
	if err != nil {
		return err
	}
	out := w.tokens.NewStream(true)
	show := engine.Watch{Token: func(_ int, id int32) {
		if !slices.Contains(w.sampling.Stop, id) {
			fmt.Fprint(args.Exact(w.c.App.Writer), out.Next(id))
		}
	}}
	a, err := w.model.answer(ctx, w.c, w.tokens.Size(), []engine.Request{r}, show)
	if err != nil {
		return err
	}
	fmt.Fprintln(args.Exact(w.c.App.Writer), out.End())
	w.speed(len(a.results[0].Tokens), a.took)
	return nil
}

// speed writes the number of generated tokens per second.
func (w *writer) speed(tokens int, took time.Duration) {
	fmt.Fprintf(w.c.App.ErrWriter, "%d tokens, %.1f tokens/s\n", tokens, float64(tokens)/took.Seconds())
}
