package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

const (
	adapterConfig  = "adapter_config.json"
	adapterWeights = "adapter_model.safetensors"
	adapterPrefix  = "base_model.model."
)

// ReadAdapter reads adapter_config.json in an adapter folder of PEFT. A key whose value asks for
// something else than package lm computes is an error with its name and value.
func ReadAdapter(dir string) (*lm.LoRA, error) {
	path := filepath.Join(dir, adapterConfig)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	r := &reader{}
	if err := json.Unmarshal(text, &r.keys); err != nil {
		return nil, fmt.Errorf("adapter %s: %w", path, err)
	}
	o := &lm.LoRA{Rank: r.size("r"), Alpha: get(r, "lora_alpha", 8.0), RSLoRA: get(r, "use_rslora", false)}
	if strings.HasPrefix(strings.TrimSpace(string(r.keys["target_modules"])), "[") {
		o.Targets = get(r, "target_modules", []string(nil))
	} else {
		r.fail("target_modules is %.100s, expected a list of names", r.keys["target_modules"])
	}
	for i, t := range o.Targets { // PEFT also takes whole paths
		t = t[strings.LastIndexByte(t, '.')+1:]
		o.Targets[i] = map[string]string{"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}[t]
		if o.Targets[i] == "" {
			o.Targets[i] = t
		}
	}
	r.refuse("peft_type", `only "LORA" is supported`, `"LORA"`)
	r.refuse("bias", `only "none" is supported`, `"none"`)
	r.refuse("use_dora", "DoRA is not supported", "false")
	r.refuse("lora_dropout", "dropout is not supported", "0", "0.0")
	r.refuse("fan_in_fan_out", "weights are [out, in]", "false")
	for _, key := range []string{"modules_to_save", "layers_to_transform", "layer_replication", "rank_pattern",
		"alpha_pattern", "layers_pattern",
		"exclude_modules", "target_parameters", "trainable_token_indices"} {
		r.refuse(key, "not supported", "{}", "[]", `""`)
	}
	if r.errs != nil {
		return nil, fmt.Errorf("adapter %s: %s", path, strings.Join(r.errs, "; "))
	}
	slices.Sort(o.Targets)
	o.Targets = slices.Compact(o.Targets)
	return o, nil
}

// LoadAdapter fills the adapters of m, which was made with the LoRA of ReadAdapter, from an adapter
// folder.
func LoadAdapter(m *lm.Model, dir string) error {
	f := &folder{where: map[string]place{}}
	if err := f.closeAt(f.open(filepath.Join(dir, adapterWeights), nil)); err != nil {
		return fmt.Errorf("load adapter: %w", err)
	}
	defer f.close()
	var want []lm.Tensor
	for _, t := range m.Adapters() {
		t.Name = adapterPrefix + fileName(m.Config.Family, t.Name)
		want = append(want, t)
	}
	if err := f.load(want, func(string) bool { return false }); err != nil {
		return fmt.Errorf("load adapter: %w", err)
	}
	return nil
}

// SaveAdapter writes an adapter folder that PEFT reads, with weights in float32. base names the
// model that the adapters belong to.
func SaveAdapter(m *lm.Model, dir, base string) error {
	if err := saveAdapter(m, dir, base); err != nil {
		return fmt.Errorf("save adapter: %w", err)
	}
	return nil
}

func saveAdapter(m *lm.Model, dir, base string) error {
	o := m.LoRA()
	if o == nil {
		return errors.New("the model has no adapter")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	targets := slices.Clone(o.Targets)
	if m.Config.Family == lm.Mixtral {
		for i, t := range targets {
			targets[i] = strings.Trim(mixtralNames.Replace("."+t+"."), ".")
		}
	}
	slices.Sort(targets)
	text, err := json.MarshalIndent(map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": base, "r": o.Rank,
		"lora_alpha": o.Alpha, "lora_dropout": 0.0,
		"use_rslora": o.RSLoRA, "use_dora": false, "bias": "none", "fan_in_fan_out": false, "target_modules": targets,
		"modules_to_save": nil,
		"inference_mode":  true,
	}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, adapterConfig), append(text, '\n'), 0o666); err != nil {
		return err
	}
	var d tensor.Dict
	for _, t := range m.Adapters() {
		x := tensor.New(tensor.F32, fileShape(t)...)
		gather(x.F32(), t.Data, 0, t.Shape[1], t.Shape[0], t.Shape[1])
		d.Set(adapterPrefix+fileName(m.Config.Family, t.Name), x)
	}
	file, err := os.Create(filepath.Join(dir, adapterWeights))
	if err != nil {
		return err
	}
	defer file.Close()
	if err := tensor.WriteSafetensors(file, d, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	return file.Close()
}
