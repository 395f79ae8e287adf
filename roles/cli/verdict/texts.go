package verdict

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/policy/lm/tokenizer"
	"github.com/rlinf/rlinf/roles/config"
)

// absent describes the files of a language-model job that are not on this machine: the model, the tokenizer and data.
type absent struct {
	printed []string // overrides for the user to complete, with FOLDER and FILE in place of paths
	standIn []string // overrides that name small replacements
	dir     string   // folder of the replacements
}

// findAbsent finds the missing files of a language-model job, and makes small replacements in a.dir. The caller removes
// this folder.
func findAbsent(cfg *config.Config) (a absent, err error) {
	if !cfg.ReadsTexts() {
		return a, nil
	}
	if a.dir, err = os.MkdirTemp("", "rlinf-check-"); err != nil {
		return a, err
	}
	here := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	own := func(key, value, standIn string) {
		a.printed = append(a.printed, key+"="+value)
		a.standIn = append(a.standIn, key+"="+standIn)
	}
	model, folder := cfg.LanguageModel().ModelPath, cfg.Actor.Tokenizer.TokenizerModel
	if model != "" && !here(model) {
		own("actor.model.model_path", "FOLDER", "null")
		a.standIn = append(a.standIn, "rollout.model.model_path=null")
		a.standIn = append(a.standIn, smallModel(cfg)...)
		if folder == "" {
			a.standIn = append(a.standIn, "actor.tokenizer.tokenizer_model="+a.dir)
		}
	}
	if folder != "" && !here(folder) {
		own("actor.tokenizer.tokenizer_model", "FOLDER", a.dir)
	}
	data := filepath.Join(a.dir, "texts.jsonl")
	missing := func(paths []string) bool { return slices.ContainsFunc(paths, func(p string) bool { return !here(p) }) }
	if missing(cfg.Data.TrainDataPaths) {
		own("data.train_data_paths", "FILE", data)
	}
	if missing(cfg.Data.ValDataPaths) {
		own("data.val_data_paths", "FILE", data)
	}
	if len(a.standIn) == 0 {
		return a, nil
	}
	return a, writeTexts(cfg, a.dir, data)
}

// smallModel returns the overrides for a small new model of the family in cfg. The parallel layouts of large
// models can partition the small model, too.
func smallModel(cfg *config.Config) []string {
	layers := 1
	for _, of := range []string{"actor", "inference", "critic"} {
		l, given := cfg.Layout(of), 0
		for _, n := range l.PipelineLayers {
			given += n
		}
		layers = max(layers, l.PipelineModelParallelSize, given)
	}
	sizes := []string{"hidden_size=8", "intermediate_size=8", fmt.Sprint("num_hidden_layers=", layers),
		"num_attention_heads=8", "num_key_value_heads=8", "head_dim=32"}
	if slices.Contains([]string{"qwen2_moe", "qwen3_moe", "mixtral"}, cfg.Actor.Model.ModelType) {
		sizes = append(sizes, "num_experts=2", "num_experts_per_tok=1", "moe_intermediate_size=8",
			"shared_expert_intermediate_size=8")
	}
	for i, size := range sizes {
		sizes[i] = "++actor.model." + size
	}
	return sizes
}

// writeTexts writes a tokenizer into dir, and enough texts for one step of cfg into the file at path.
func writeTexts(cfg *config.Config, dir, path string) error {
	const end, template = "<|endoftext|>", "{% for m in messages %}{{ m['content'] }}{% endfor %}"
	_, err := tokenizer.Train(dir, slices.Values([]string{"2 + 2"}), tokenizer.Training{VocabSize: 280,
		Pattern: "qwen2", MinCount: 2, Special: []string{end}, EOS: end, ChatTemplate: template})
	if err != nil {
		return fmt.Errorf("a tokenizer in place of the missing one: %w", err)
	}
	line, err := json.Marshal(map[string]any{cfg.Data.PromptKey: "2", cfg.Data.AnswerKey: "2"})
	if err != nil {
		return err
	}
	n := min(max(cfg.Data.RolloutBatchSize, cfg.Actor.GlobalBatchSize, 1), 1<<16)
	return os.WriteFile(path, bytes.Repeat(append(line, '\n'), n), 0o666)
}
