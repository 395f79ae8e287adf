package report_test

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
)

// A browser shows one page, and keeps what the page says and asks for.
type browser struct {
	context.Context
	mu       sync.Mutex
	messages []string // on the console, exceptions included
	requests []string // but for the page itself
}

var chromium = sync.OnceValue(func() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
})

// patience is how long a browser may take for a step.
const patience = 2 * time.Minute

// open shows the page in a new browser, and returns when the page is drawn.
func open(t testing.TB, page []byte, options ...chromedp.ExecAllocatorOption) *browser {
	t.Helper()
	if chromium() == "" {
		t.Skip("no chromium here: scripts/setup test installs it")
	}
	path := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(path, page, 0o666); err != nil {
		t.Fatal(err)
	}
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.WindowSize(1280, 1000))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), append(all, options...)...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, end := context.WithTimeout(ctx, patience)
	t.Cleanup(end)
	b := &browser{Context: ctx}
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
			if e.Request.URL != url {
				b.requests = append(b.requests, fmt.Sprintf("%.100s", e.Request.URL))
			}
		}
	})
	b.do(t, log.Enable(), network.Enable(), chromedp.Navigate(url),
		chromedp.WaitReady("html[data-ready], html[data-error]", chromedp.ByQuery))
	var wrong string
	b.do(t, chromedp.Evaluate(`document.documentElement.getAttribute('data-error') || ''`, &wrong))
	if wrong != "" {
		t.Fatalf("the page failed: %s", wrong)
	}
	return b
}

func (b *browser) do(t testing.TB, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(b.Context, actions...); err != nil {
		t.Fatalf("browser: %v (%q)", err, b.messages)
	}
}

// text returns what a script returns.
func (b *browser) text(t testing.TB, script string) (text string) {
	t.Helper()
	b.do(t, chromedp.Evaluate("String("+script+")", &text))
	return text
}

// quiet fails the test if the page wrote a message or asked for anything.
func (b *browser) quiet(t testing.TB) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.messages {
		t.Errorf("console: %s", m)
	}
	for _, url := range b.requests {
		if url != "data:," {
			t.Errorf("request: %s", url)
		}
	}
}
