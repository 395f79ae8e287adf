package algo

import (
	"slices"
	"strings"
)

// Get returns the metric called name, and whether there is one.
func (m Metrics) Get(name string) (value float64, ok bool) {
	i := slices.Index(m.Names, name)
	if i < 0 {
		return 0, false
	}
	return m.Values[i], true
}

// Loss returns the loss that algorithm a minimised in the update with the metrics m, as a mean over the update. ok is
// false if m has no loss. An algorithm that weighs its losses has a method Loss(Metrics) float64. For others the loss
// is the sum of the metrics NAME/loss and NAME/…_loss, without those of a validation (NAME/val_loss).
func Loss(a Algorithm, m Metrics) (loss float64, ok bool) {
	if w, weighs := a.(interface{ Loss(Metrics) float64 }); weighs {
		return w.Loss(m), true
	}
	for i, name := range m.Names {
		_, last, _ := strings.Cut(name, "/")
		if last == "loss" || strings.HasSuffix(last, "_loss") && last != "val_loss" {
			loss, ok = loss+m.Values[i], true
		}
	}
	return loss, ok
}

// Loss returns the loss of the update that returned m, with the weights of the configuration:
//
//	L = policy_loss + kl_beta·kl_loss + value_loss_coef·value_loss - entropy_bonus·entropy_loss
func (p *PPO) Loss(m Metrics) float64 {
	term := func(weight float32, name string) float64 {
		x, _ := m.Get(name)
		return float64(weight) * x
	}
	return term(1, "actor/policy_loss") + term(p.cfg.KLBeta, "actor/kl_loss") +
		term(p.cfg.ValueLossCoef, "critic/value_loss") - term(p.cfg.EntropyBonus, "actor/entropy_loss")
}
