package algo

// Keys are the keys of the configuration that a job reads. Each part declares its keys in a function beside the code
// that reads them. The functions have the form func(s *Setup, k *Keys); s has only the configuration.
//
// Names are dotted: keys of the section actor begin with "actor.", and all other names are relative to the section
// algorithm.
type Keys struct {
	read  map[string]bool
	needs map[string]string // keys that are not read, each with the setting that would make the algorithm read it
}

// Read declares keys that the algorithm reads.
func (k *Keys) Read(names ...string) {
	for _, name := range names {
		if k.read == nil {
			k.read = map[string]bool{}
		}
		k.read[name] = true
	}
}

// ReadIf declares keys that the algorithm reads if on is true. setting describes the setting that makes on true, such
// as "kl_beta > 0".
func (k *Keys) ReadIf(on bool, setting string, names ...string) {
	if on {
		k.Read(names...)
		return
	}
	for _, name := range names {
		if k.needs == nil {
			k.needs = map[string]string{}
		}
		k.needs[name] = setting
	}
}

// Has reports whether the algorithm reads the key with the given name. If not, setting describes the setting that would
// make the algorithm read the key. It is "" if the algorithm never reads the key.
func (k *Keys) Has(name string) (read bool, setting string) {
	if k.read[name] {
		return true, ""
	}
	return false, k.needs[name]
}

// Reads is the Trait of algorithms that declare the keys that they read. declare must name all keys of Config and of
// the sections actor.optim and actor.critic_optim that the algorithm reads; see Keys. If a configuration sets a key
// that is not declared, the key is reported as one without effect. An algorithm without this Trait may read all keys.
func Reads(declare func(s *Setup, k *Keys)) Trait { return func(e *entry) { e.declare = declare } }

// Keys returns the keys that the algorithm of s.Config reads. s needs only the configuration. declared is false for an
// algorithm that does not declare its keys; see Reads.
func (r *Registry) Keys(s *Setup) (keys *Keys, declared bool) {
	e := r.find(s.Config.AdvType, s.Config.LossType)
	if e.declare == nil {
		return nil, false
	}
	keys = &Keys{}
	keys.Read("adv_type", "loss_type")
	e.declare(s, keys)
	return keys, true
}

// ReadOptim declares the keys that an Adam reads from a section, such as "actor.optim". The argument own has the
// section's values. The optimisers in others take these values as their defaults.
func (k *Keys) ReadOptim(section string, own *OptimConfig, others ...*OptimConfig) {
	for _, name := range []string{"lr", "adam_beta1", "adam_beta2", "adam_eps", "weight_decay", "clip_grad",
		"lr_scheduler", "lr_warmup_steps"} {
		k.Read(section + "." + name)
	}
	scheduled := own.LRScheduler != ScheduleConstant
	for _, o := range others {
		scheduled = scheduled || o.LRScheduler != ScheduleConstant
	}
	k.ReadIf(scheduled, "lr_scheduler linear or cosine", section+".min_lr", section+".total_training_steps")
}
