package mujoco

import (
	"math"

	"github.com/rlinf/rlinf/tensor"
)

func suiteViews() []suiteView {
	inf := float32(math.Inf(1))
	return []suiteView{
		{name: "state", dtype: tensor.F32, width: suiteStateLen, bound: inf, write: (*suite).state},
		{name: "proprio", dtype: tensor.F32, width: 8, bound: inf,
			write: func(t *suite, obs []float64) { t.proprio(obs) }},
		{name: "image", camera: "front"},
		{name: "wrist_image", camera: "wrist"},
		{name: textView, dtype: tensor.U8, width: TextLen, bound: 255, write: (*suite).text},
	}
}

// state writes the observation "state" of TabletopSuite.
func (t *suite) state(obs []float64) {
	o := t.order()
	obs = t.appendThings(obs[:0])
	for i := range tableObjects {
		obs = append(obs, count(o.noun != aZone && i == t.meant()))
	}
	for i := range tableZones {
		obs = append(obs, count(o.zone && i == t.meantZone()))
	}
	hand, target, aim := t.hand(), t.target(), o.aim(t)
	obs = decimetres(obs, target[0]-hand[0], target[1]-hand[1], target[2]-hand[2], aim[0]-target[0], aim[1]-target[1])
	if o.noun == aZone {
		obs = append(obs, 0, 0, 0)
	} else {
		obs = decimetres(obs, t.velocity(t.meant())...)
	}
	for i := range t.orders {
		obs = append(obs, count(i == int(t.memo[suiteOrder])))
	}
	for i := range tableObjects {
		obs = append(obs, count(o.other && i == t.other()))
	}
}
