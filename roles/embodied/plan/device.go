package plan

import (
	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/roles/config"
)

// checkDevice checks that actors can compute on the configured device.
func (d *Draft) checkDevice() {
	c := d.Config
	const key = "actor.device"
	want := func(ok bool, expected string) bool {
		d.found.Want(ok, key, c.Actor.Device, expected)
		return ok
	}
	if c.Actor.Device != config.DeviceCUDA || d.found.Reported(key) {
		return
	}
	m, a := &c.Actor.Model, &c.Algorithm
	if !want(c.Trains() && !d.OffPolicy && !d.Offline, "cpu: only on-policy algorithms train on a device") ||
		!want(m.ModelType == "mlp_policy", "cpu: "+m.ModelType+" has layers without device kernels") ||
		!want(!m.UseSDE, "cpu: use_sde has no device kernels") ||
		!want(a.KLBeta == 0 && a.ReinppKLBeta == 0, "cpu: a reference policy (kl_beta) does not use a device") {
		return
	}
	devices, why := gpu.Devices()
	want(len(devices) > 0, "cpu: "+why)
}
