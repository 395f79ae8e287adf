package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestHintsForTexts: mistakes with folders of models, runs and adapters name the right key and the next command.
func TestHintsForTexts(t *testing.T) {
	dir := languageFolder(t)
	file, answers := evaluationOf(t, dir, "sft"), evaluationOf(t, dir, "reasoning")
	text := test.Must(os.ReadFile(file))(t)
	writeFile(t, file, strings.Replace(string(text), "  tokenizer: {tokenizer_model: "+dir+"}\n", "", 1))
	in := func(path ...string) string { return filepath.Join(append([]string{dir}, path...)...) }
	trained, adapter, empty := in("sft"), in("adapter"), t.TempDir()
	talk := filepath.Join(empty, "talk.jsonl")
	writeFile(t, talk, strings.Repeat(`{"messages": [{"role": "user", "content": "a"}, `+
		`{"role": "assistant", "content": "b"}]}`+"\n", 4))
	ended := ok(t, "-c", file, "actor.model.is_lora=true", "data.apply_chat_template=true", "data.chat_template=chatml",
		"data.train_data_paths="+talk, "data.val_data_paths="+talk)
	ok(t, "export", trained, "--out", in("merged"))
	ok(t, "export", trained, "--out", adapter, "--adapter")
	for _, folder := range []string{"merged", "adapter"} {
		if got := string(test.Must(os.ReadFile(in(folder, "tokenizer_config.json")))(t)); !strings.Contains(got,
			"<|im_start|>") {
			t.Errorf("%s: no template of chatml: %s", folder, got)
		}
	}
	if want := " export " + trained + " --out FOLDER"; !strings.Contains(ended, want) {
		t.Errorf("the end of a run: %s\nwant %s", ended, want)
	}
	ok(t, "eval", "-c", file, "--checkpoint", trained, "actor.model.is_lora=true", "data.apply_chat_template=true",
		"data.chat_template=chatml", "data.train_data_paths="+talk, "data.val_data_paths="+talk)
	const export = ": this is a run or its checkpoint; export it first: rlinf export "
	checkpoint := filepath.Join(trained, "checkpoints", "latest")
	program := []string{"check", "-c", answers, "reward.reward_type=program"}
	for _, tc := range []struct {
		want string
		args []string
	}{
		{"actor.model.model_path: nosuch: expected the folder of a model: ", []string{"check", "-c", file,
			"actor.model.model_path=nosuch"}},
		{"actor.model.model_path: " + empty + ": expected the folder of a model: ", []string{"check", "-c", file,
			"actor.model.model_path=" + empty}},
		{export + checkpoint, []string{"check", "-c", file, "actor.model.model_path=" + checkpoint}},
		{export + trained, []string{"check", "-c", answers, "actor.model.model_path=" + trained}},
		{export + trained, []string{"generate", "-m", trained, "--ids", "1"}},
		{"and --adapter " + adapter, []string{"generate", "-m", adapter, "--ids", "1"}},
		{"it has adapters only: export it first: rlinf export", []string{"check", "-c", file,
			"runner.ckpt_path=" + checkpoint}},
		{"data.apply_chat_template: not set: expected true: ", []string{"check", "-c", file,
			"data.train_data_paths=" + talk}},
		{"reward.program.command: sh nosuch.sh: expected a program that starts here: ",
			append(program, "+reward.program.command=sh nosuch.sh")},
		{`program.command: exec: "nosuch": executable file not found`, append(program,
			"+reward.program.command=nosuch")},
	} {
		code, out, errs := run(t, tc.args...)
		if code != loop.ExitConfig || !strings.Contains(errs, tc.want) {
			t.Errorf("%v: exit code %d, want %s\n%s%s", tc.args, code, tc.want, out, errs)
		}
	}
}
