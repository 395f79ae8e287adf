package config

import "slices"

// Values of ActorConfig.Device, InferenceConfig.Device and CriticConfig.Device.
const (
	DeviceCPU  = "cpu"
	DeviceCUDA = "cuda"
)

// DeviceComponents are the components with a key device.
var DeviceComponents = []string{"actor", "inference", "critic"}

// Device returns the value of a component's key device, or nil if there is no such key.
func (c *Config) Device(component string) []string {
	switch component {
	case "actor":
		return c.Actor.Device
	case "inference":
		return c.Inference.Device
	case "critic":
		return c.Critic.Device
	}
	return nil
}

// UsesGPU reports whether member m of a component computes on a GPU.
func (c *Config) UsesGPU(component string, m int) bool {
	d := c.Device(component)
	return len(d) > 0 && d[m%len(d)] == DeviceCUDA
}

// AnyUsesGPU reports whether a member of a component computes on a GPU.
func (c *Config) AnyUsesGPU(component string) bool {
	return slices.Contains(c.Device(component), DeviceCUDA)
}
