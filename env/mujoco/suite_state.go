package mujoco

import "github.com/rlinf/rlinf/tensor"

// views returns all observations of TabletopSuite.
func (t *suite) views() []view {
	return []view{
		numbersView("state", suiteStateLen, func(p *physics, obs []float64) { t.at(p).state(obs) }),
		t.proprioView(),
		cameraView("image", "front"),
		cameraView("wrist_image", "wrist"),
		{name: textView, dtype: tensor.U8, text: true, width: TextLen, bound: 255,
			observe: func(p *physics, obs []float64) { t.at(p).text(obs) }},
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
