package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/rlinf/rlinf/internal/test"
)

// A tab shows one page, and records its messages and requests.
type tab struct {
	context.Context
	mu       sync.Mutex
	messages []string // on the console, including exceptions
	requests []string // except for the page itself
}

// chromium is one browser for all tests, which TestMain closes.
var chromium struct {
	once sync.Once
	context.Context
	close func()
	err   error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if chromium.close != nil {
		chromium.close()
	}
	os.Exit(code)
}

// start starts the browser.
func start() {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1280, 1000))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, end := chromedp.NewContext(allocator)
	chromium.Context, chromium.close = ctx, func() { end(); stop() }
	chromium.err = chromedp.Run(ctx)
}

// patience is the time limit of a test.
const patience = 2 * time.Minute

// open shows the page in a new tab, and returns when the page is drawn.
func open(t testing.TB, page []byte) *tab {
	t.Helper()
	chromium.once.Do(start)
	if chromium.Context == nil {
		t.Skip("no chromium here: scripts/setup test installs it")
	}
	if chromium.err != nil {
		t.Fatal(chromium.err)
	}
	path := filepath.Join(t.TempDir(), "page.html")
	test.OK(t, os.WriteFile(path, page, 0o666))
	ctx, closeTab := chromedp.NewContext(chromium.Context)
	t.Cleanup(closeTab)
	ctx, end := context.WithTimeout(ctx, patience)
	t.Cleanup(end)
	b := &tab{Context: ctx}
	url := "file://" + path
	chromedp.ListenTarget(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, a := range e.Args {
				b.messages = append(b.messages, fmt.Sprintf("%s: %s %s", e.Type, a.Value, a.Description))
			}
		case *runtime.EventExceptionThrown:
			b.messages = append(b.messages, e.ExceptionDetails.Error())
		case *log.EventEntryAdded:
			b.messages = append(b.messages, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
		case *network.EventRequestWillBeSent:
			if e.Request.URL != url && e.Request.URL != "data:," { // the page has an empty icon
				b.requests = append(b.requests, fmt.Sprintf("%.100s", e.Request.URL))
			}
		}
	})
	b.do(t, log.Enable(), network.Enable(), chromedp.Navigate(url),
		chromedp.WaitReady("html[data-ready], html[data-error]", chromedp.ByQuery))
	if wrong := b.text(t, `document.documentElement.dataset.error || ''`); wrong != "" {
		t.Fatalf("the page failed: %s", wrong)
	}
	return b
}

func (b *tab) do(t testing.TB, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(b.Context, actions...); err != nil {
		t.Fatalf("browser: %v (%q)", err, b.messages)
	}
}

// text returns the result of a script.
func (b *tab) text(t testing.TB, script string) (text string) {
	t.Helper()
	b.do(t, chromedp.Evaluate("Promise.resolve("+script+").then(String)", &text,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return text
}

// expect fails the test unless the script returns want.
func (b *tab) expect(t testing.TB, script, want string) {
	t.Helper()
	test.Equal(t, b.text(t, script), want, "%s", script)
}

// quiet fails the test if the page wrote a message or made a request.
func (b *tab) quiet(t testing.TB) {
	t.Helper()
	b.expect(t, `document.documentElement.dataset.error || ''`, "")
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		t.Errorf("console: %s", m)
	}
	for _, url := range b.requests {
		t.Errorf("request: %s", url)
	}
}
