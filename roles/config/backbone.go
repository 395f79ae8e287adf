package config

import (
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
)

const cnnPolicy = "cnn_policy"

// settleBackbone sets the hidden layers that RLinf has behind backbone resnet, unless the file has some. If the policy
// has another encoder, settleBackbone reports the keys of the backbone, and resets them.
func (c *Config) settleBackbone() {
	m := &c.Actor.Model
	b, err := params.Get(m.Own, policy.Backbone{})
	switch {
	case err != nil || m.ModelType != cnnPolicy || b.Backbone == "":
	case !b.Applies(*m):
		for _, key := range []struct{ name, value string }{{"backbone", b.Backbone}, {"model_path", b.ModelPath},
			{"encoder_config.ckpt_name", b.Encoder.File}} {
			if name := "actor.model." + key.name; c.found.Has(name) {
				c.found.IdleInstead(name, key.value, "encoder names the network of images; backbone needs add_q_head")
			}
		}
		m.Own = params.New(policy.Backbone{})
	case !c.found.Has("actor.model.hidden_sizes"):
		m.HiddenSizes = []int{256, 256}
	}
}

// frozenBackbone reports whether t asks for a frozen backbone, whose weights are in model_path.
func frozenBackbone(t *config.Tree) bool {
	backbone, _ := t.Given("actor.model.backbone")
	encoder, _ := t.Given("actor.model.encoder")
	soft, _ := t.Given("actor.model.add_q_head")
	return backbone == policy.ResNet && encoder == "" && soft != "" && soft != "false" && soft != "False"
}

// CheckBackbone returns a mistake if the weights of a frozen backbone are missing.
func (c *Config) CheckBackbone() error {
	m := &c.Actor.Model
	b, err := params.Get(m.Own, policy.Backbone{})
	if err != nil || m.ModelType != cnnPolicy || !b.Applies(*m) || b.ModelPath == "" {
		return nil
	}
	if err := b.CheckFile(); err != nil {
		return c.Mistake("actor.model.model_path", b.ModelPath, "the weights of ResNet-10: "+err.Error())
	}
	return nil
}
