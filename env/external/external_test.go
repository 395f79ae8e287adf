package external_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/classic"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// entry starts the children of these tests.
var entry programs.Entered

// The test program is also a supervisor and, if RLB_ADDR is set, a child that plays CartPole.
func TestMain(m *testing.M) {
	entry = programs.Enter()
	if address := os.Getenv("RLB_ADDR"); address != "" {
		token, err := external.Token()
		if err == nil {
			err = beChild(address, token)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func newHub(log io.Writer) *external.Hub { return external.NewHub(log, 0).Supervise(entry) }

func newCartPole(maxSteps int, ignoreTerminations bool) (env.Vec, error) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.MaxEpisodeSteps, cfg.IgnoreTerminations = "CartPole-v1", maxSteps, ignoreTerminations
	return classic.NewCartPole(cfg, 1)
}

// newBitFlip makes an environment with goals.
func newBitFlip(maxSteps int, ignoreTerminations bool) (env.Vec, error) {
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.MaxEpisodeSteps, cfg.IgnoreTerminations = "BitFlip-v1", maxSteps, ignoreTerminations
	return classic.NewBitFlip(cfg, classic.BitFlipKeys{Bits: 3}, 1)
}

// A transport is a way to start and reach children.
type transport struct {
	name   string
	listen func(t *testing.T) (listen, tokenFile string)
	inline bool
}

func transports() []transport {
	unix := func(t *testing.T) (string, string) { return "unix:" + filepath.Join(t.TempDir(), "s"), "" }
	tcp := func(t *testing.T) (string, string) {
		token := filepath.Join(t.TempDir(), "token")
		test.OK(t, os.WriteFile(token, []byte("a secret\n"), 0o600))
		return fmt.Sprintf("tcp:127.0.0.1:%d", freePort(t)), token
	}
	return []transport{
		{"pipes", nil, false}, {"pipes, inline", nil, true},
		{"unix", unix, false}, {"unix, inline", unix, true}, {"tcp", tcp, false}, {"tcp, inline", tcp, true},
	}
}

// config returns the configuration of children over tr, and a function that starts n of them.
func (tr transport) config(t *testing.T) (cfg env.Config, come func(n int)) {
	cfg = env.DefaultConfig()
	cfg.EnvType = env.ExternalID
	cfg.External.SharedMemory = !tr.inline
	if tr.listen == nil {
		cfg.External.Command = env.Command{os.Args[0]}
		return cfg, func(int) {}
	}
	cfg.External.Listen, cfg.External.TokenFile = tr.listen(t)
	return cfg, func(n int) {
		for range n {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), "RLB_ADDR="+cfg.External.Listen, "RLB_TOKEN_FILE="+cfg.External.TokenFile)
			c.Stdout, c.Stderr = os.Stderr, os.Stderr // with files, no goroutine copies the output
			test.OK(t, c.Start())
			t.Cleanup(func() { c.Process.Kill(); c.Wait() })
		}
	}
}

// TestContract: environments behind the bridge keep the contract of package env, over every transport.
func TestContract(t *testing.T) {
	ways := transports()
	if testing.Short() {
		ways = []transport{ways[2], ways[5]} // the other tests use pipes
	}
	for _, tr := range ways {
		t.Run(tr.name, func(t *testing.T) {
			cfg, come := tr.config(t)
			cfg.MaxEpisodeSteps = 25
			hub := newHub(t.Output())
			t.Cleanup(func() { hub.Close() })
			cfg.External.N = 2
			come(1)
			var err error
			if cfg.External.Greeting, err = hub.Ask(cfg); err != nil {
				t.Fatal(err)
			}
			spare := 1
			envtest.Run(t, func(n int) (env.Vec, error) {
				vec, err := hub.New(cfg, n)
				return &late{Vec: vec.(*external.Vec), come: func() { come(min(n, 2) - spare); spare = 0 }}, err
			}, envtest.Options{})
		})
	}
}

// A late Vec starts its children at its first use.
type late struct {
	*external.Vec
	come func()
	came bool
}

func (l *late) arrive() {
	if !l.came {
		l.came = true
		l.come()
	}
}

func (l *late) Reset(mask []bool, seeds []uint64, out *env.Step) error {
	l.arrive()
	return l.Vec.Reset(mask, seeds, out)
}

func (l *late) Load(state tensor.Dict) error {
	l.arrive()
	return l.Vec.Load(state)
}
