package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestRecord plays a trained policy, records it, and shows the file. Flags that fit nothing are refused before.
func TestRecord(t *testing.T) {
	j := trainedJob(t)
	file := filepath.Join(j.dir, "demos.safetensors")
	_, figures, said := j.call(t, j.eval("--record", file, "--max-steps", "40")...)
	if figures["record"] != file || figures["recorded_episodes"] != 3.0 || figures["recorded_transitions"] != 36.0 {
		t.Fatal(said)
	}
	_, shown, said := j.call(t, "data", "show", "--json", file)
	if shown["env"] != "StandIn-v0" || shown["episodes"] != 3.0 || shown["transitions"] != 36.0 ||
		shown["tensors"].(map[string]any)["action"] != "F32[1 2]" || shown["success"] == nil {
		t.Error(said)
	}
	if _, _, said := j.call(t, "data", "show", file); !strings.Contains(said, "  length       12 to 12\n") ||
		!strings.Contains(said, " of 3); ") {
		t.Error(said)
	}
	other := filepath.Join(j.dir, "notes.txt")
	test.OK(t, os.WriteFile(other, []byte("mine"), 0o600))
	for want, args := range map[string][]string{
		"--only: expected --record FILE, too": {"--only", "success"},
		"--only failure: expected success":    {"--only", "failure", "--record", file},
		"--max-steps 0":                       {"--max-steps", "0", "--record", file},
		"this command did not write the file": {"--record", other},
		"data_collection.export_format: hdf5: expected ": {"env.eval.data_collection.enabled=true",
			"env.eval.data_collection.export_format=hdf5"},
	} {
		if code, _, said := j.call(t, j.eval(args...)...); code != loop.ExitConfig || !strings.Contains(said, want) {
			t.Errorf("%v: exit code %d: %s, want %s", args, code, said, want)
		}
	}
	if code, _, said := j.call(t, "data", "show", other); code != loop.ExitConfig || !strings.Contains(said, other) {
		t.Errorf("a text: exit code %d: %s", code, said)
	}
	// The configuration asks for a recording, without a flag.
	if _, figures, said := j.call(t, j.eval("++env.eval.data_collection.enabled=true")...); figures["record"] !=
		filepath.Join(j.dir, "r", "demos", "eval_global_step_4.safetensors") {
		t.Error(said)
	}
}

// TestLostRecording: a job says that an earlier run has left a recording that it could not write.
func TestLostRecording(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, ".recording-train.safetensors-8")
	args := []string{"check", "-c", rolestest.Cartpole, "env.train.data_collection.enabled=true",
		"env.train.data_collection.save_dir=" + dir, "runner.logger.log_path=" + dir}
	for _, want := range []bool{false, true} {
		code, out, said := run(t, args...)
		if code != loop.ExitOK || strings.Contains(out+said, "has left "+left) != want {
			t.Errorf("exit code %d, want the file: %v\n%s%s", code, want, out, said)
		}
		test.OK(t, os.WriteFile(left, nil, 0o600))
	}
}
