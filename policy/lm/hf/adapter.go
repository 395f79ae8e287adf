package hf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

const (
	adapterConfig  = "adapter_config.json"
	adapterWeights = "adapter_model.safetensors"
	adapterPrefix  = "base_model.model."
)

// ReadAdapter reads adapter_config.json in an adapter folder of PEFT. If package lm does not support a value, or if an
// unknown key has a value, the error names key and value. lora_dropout is accepted and ignored, because training here
// has no dropout.
func ReadAdapter(dir string) (*lm.LoRA, error) {
	path := filepath.Join(dir, adapterConfig)
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return nil, fmt.Errorf("adapter: %w", err)
	}
	r := &reader{}
	if err := json.Unmarshal(text, &r.keys); err != nil {
		return nil, fmt.Errorf("adapter %s: %w", path, err)
	}
	o := &lm.LoRA{Rank: get(r, "r", 8), Alpha: get(r, "lora_alpha", 8.0), RSLoRA: get(r, "use_rslora", false)}
	if strings.HasPrefix(strings.TrimSpace(string(r.keys["target_modules"])), "[") {
		o.Targets = get(r, "target_modules", []string(nil))
	} else {
		r.fail("target_modules is %.100s, expected a list of names", r.keys["target_modules"])
	}
	for i, t := range o.Targets { // PEFT also accepts full module paths
		t = t[strings.LastIndexByte(t, '.')+1:]
		o.Targets[i] = map[string]string{"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}[t]
		o.Targets[i] = cmp.Or(o.Targets[i], t)
	}
	for _, key := range slices.Sorted(maps.Keys(r.keys)) {
		if why := harmful(key, r.keys[key]); why != "" {
			r.fail("%s is %.100s: %s", key, r.keys[key], why)
		}
	}
	if r.errs != nil {
		return nil, fmt.Errorf("adapter %s: %s", path, strings.Join(r.errs, "; "))
	}
	slices.Sort(o.Targets)
	o.Targets = slices.Compact(o.Targets)
	return o, nil
}

// harmful returns "" if the value of a key is compatible with plain LoRA. Otherwise it returns the reason for an error.
// An unknown key must be null, false or empty, because a later version of PEFT may define it.
func harmful(key string, raw json.RawMessage) string {
	var compact bytes.Buffer
	_ = json.Compact(&compact, raw) // raw is a part of a decoded JSON text
	value := compact.String()
	if slices.Contains([]string{"null", "false", `""`, "[]", "{}"}, value) {
		return ""
	}
	number, err := strconv.ParseFloat(value, 64)
	ok, why := false, "not supported"
	switch key {
	case "r", "lora_alpha", "use_rslora", "target_modules": // read by ReadAdapter
		ok = true
	case "base_model_name_or_path", "revision", "peft_version", "auto_mapping", "inference_mode",
		"megatron_core", // name of a module; matters only with megatron_config
		"eva_config":    // matters only for initial weights
		ok = true
	case "peft_type":
		ok, why = value == `"LORA"`, `only "LORA" is supported`
	case "task_type":
		ok, why = value == `"CAUSAL_LM"`, `only "CAUSAL_LM" is supported`
	case "bias":
		ok, why = value == `"none"`, `only "none" is supported`
	case "lora_dropout":
		ok, why = err == nil && 0 <= number && number <= 1, "expected a share from 0 to 1"
	case "qalora_group_size": // matters only with use_qalora
		ok, why = err == nil, "expected a number"
	case "init_lora_weights":
		// Other values, such as pissa and olora, also change the base model's weights.
		ok = slices.Contains([]string{"true", `"gaussian"`, `"eva"`, `"orthogonal"`}, strings.ToLower(value))
		why = "expected a start that leaves the weights below as they are: true, false, gaussian, eva or orthogonal"
	}
	if ok {
		return ""
	}
	return why
}

// LoadAdapter fills the adapters of m from an adapter folder. m must have been made with the LoRA that ReadAdapter
// returned.
func LoadAdapter(m *lm.Model, dir string) (err error) {
	defer prefix(&err, "load adapter")
	f := newFolder()
	defer f.close()
	if err := f.open(filepath.Join(dir, adapterWeights), nil); err != nil {
		return err
	}
	if err := f.check(adaptersInFiles(m.Whole()), func(string) bool { return false }); err != nil {
		return err
	}
	return f.load(adaptersInFiles(m))
}

// adaptersInFiles returns the adapters of m with their names in files.
func adaptersInFiles(m *lm.Model) []lm.Weight {
	all := m.Adapters()
	for i := range all {
		all[i].Name = adapterPrefix + fileName(m.Config.Family, all[i].Name)
	}
	return all
}

// SaveAdapter writes an adapter folder for PEFT, with weights in float32. It also writes generation_config.json with
// the given tokens. base is the name of the base model.
func SaveAdapter(m *lm.Model, dir, base string, tokens Tokens) (err error) {
	defer prefix(&err, "save adapter")
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
	if err := tokens.save(dir); err != nil {
		return err
	}
	var d tensor.Dict
	for _, t := range adaptersInFiles(m) {
		x := tensor.New(tensor.F32, fileShape(t)...)
		gather(x.F32(), t.Data, 0, t.Shape[1], t.Shape[0], t.Shape[1])
		d.Set(t.Name, x)
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
