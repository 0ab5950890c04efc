package controlpb

import "fmt"

func (m *Hello) check(at string) error {
	return first(
		checkBoot(at+".boot_id", m.GetBootId()),
		checkText(at+".pool", m.GetPool(), mostName),
		checkAddresses(at+".addresses", m.GetAddresses()),
		checkNamed(at+".version", m.GetVersion(), mostName),
		checkNamed(at+".platform", m.GetPlatform(), mostName),
	)
}

func (m *HelloReply) check(at string) error {
	return first(
		checkNamed(at+".pool", m.GetPool(), mostName),
		checkBoot(at+".boot_id", m.GetBootId()),
		checkPeers(at+".peers", m.GetPeers()),
		m.GetSwim().check(at+".swim"),
	)
}

func (m *SwimSettings) check(at string) error {
	if m == nil {
		return wrong(at, "is missing")
	}
	return first(
		checkNamed(at+".profile", m.GetProfile(), mostName),
		checkAmount(at+".probe_interval_micros", m.GetProbeIntervalMicros()),
		checkAmount(at+".probe_timeout_micros", m.GetProbeTimeoutMicros()),
		checkAmount(at+".gossip_interval_micros", m.GetGossipIntervalMicros()),
		checkAmount(at+".push_pull_interval_micros", m.GetPushPullIntervalMicros()),
		checkFigure(at+".suspicion_multiplier", m.GetSuspicionMultiplier()),
	)
}

func (m *Ping) check(at string) error {
	if len(m.GetBootId()) == 0 {
		return nil
	}
	return checkBoot(at+".boot_id", m.GetBootId())
}

func (m *Pong) check(at string) error {
	err := first(
		checkBoot(at+".boot_id", m.GetBootId()),
		checkText(at+".phase", m.GetPhase(), mostName),
		m.GetStage().check(at+".stage"),
	)
	if err != nil || m.GetFacts() == nil {
		return err
	}
	return m.GetFacts().check(at + ".facts")
}

func (m *Report) check(at string) error {
	if err := checkBoot(at+".boot_id", m.GetBootId()); err != nil {
		return err
	}
	if m.GetSequence() == 0 {
		return wrong(at+".sequence", "is 0, reports are counted from 1")
	}
	switch e := m.GetEvent().(type) {
	case *Report_NodeAvailable:
		return e.NodeAvailable.check(at + ".node_available")
	case *Report_NodeFaulted:
		at += ".node_faulted"
		return first(
			checkAttempt(at+".attempt", e.NodeFaulted.GetAttempt()),
			e.NodeFaulted.GetFault().check(at+".fault", mostCauses),
		)
	case *Report_NodeLeft:
		return nil
	case *Report_Facts:
		return e.Facts.check(at + ".facts")
	case *Report_StageProgress:
		return e.StageProgress.check(at + ".stage_progress")
	case *Report_StageReady:
		return e.StageReady.check(at + ".stage_ready")
	case *Report_StageFaulted:
		at += ".stage_faulted"
		return first(
			checkStage(at, e.StageFaulted.GetRunId(), e.StageFaulted.GetAttempt()),
			e.StageFaulted.GetFault().check(at+".fault", mostCauses),
		)
	case *Report_StageTornDown:
		return checkStage(at+".stage_torn_down", e.StageTornDown.GetRunId(), e.StageTornDown.GetAttempt())
	case *Report_OfferChanged:
		return e.OfferChanged.check(at + ".offer_changed")
	}
	return wrong(at+".event", "is none that this build knows")
}

func (m *NodeAvailable) check(at string) error {
	err := first(
		checkAttempt(at+".attempt", m.GetAttempt()),
		checkAddresses(at+".addresses", m.GetAddresses()),
		checkCount(at+".devices", len(m.GetDevices()), mostDevices),
		checkNamed(at+".versions.muster", m.GetVersions().GetMuster(), mostName),
		checkText(at+".versions.engine", m.GetVersions().GetEngine(), mostName),
		checkNamed(at+".versions.platform", m.GetVersions().GetPlatform(), mostName),
		checkDigest(at+".versions.backend", m.GetVersions().GetBackend()),
	)
	if err != nil {
		return err
	}
	for i, d := range m.GetDevices() {
		at := fmt.Sprintf("%s.devices[%d]", at, i)
		err := first(
			checkNamed(at+".kind", d.GetKind(), mostName),
			checkNamed(at+".name", d.GetName(), mostName),
			checkText(at+".description", d.GetDescription(), mostDetail),
		)
		if err != nil {
			return err
		}
	}
	switch m.GetWorkerPolicy() {
	case WorkerPolicy_WORKER_POLICY_PROVEN:
		return checkSome(at+".versions.backend", len(m.GetVersions().GetBackend()) == 0)
	case WorkerPolicy_WORKER_POLICY_DEFERRED:
		return nil
	default:
		return wrong(at+".worker_policy", "is %d, which this build does not know", m.GetWorkerPolicy())
	}
}

func (m *Facts) check(at string) error {
	err := first(
		checkAttempt(at+".attempt", m.GetAttempt()),
		checkCount(at+".facts", len(m.GetFacts()), mostFacts),
	)
	if err != nil {
		return err
	}
	for i, f := range m.GetFacts() {
		if err := f.check(fmt.Sprintf("%s.facts[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func (m *FactState) check(at string) error {
	err := first(
		checkNamed(at+".name", m.GetName(), mostName),
		checkAmount(at+".since_millis", m.GetSinceMillis()),
		checkText(at+".detail", m.GetDetail(), mostDetail),
	)
	if err != nil {
		return err
	}
	switch m.GetState() {
	case FactState_STATE_FAILED:
		return m.GetFault().check(at+".fault", mostCauses)
	case FactState_STATE_PENDING, FactState_STATE_PROVEN, FactState_STATE_DEFERRED:
		if m.GetFault() != nil {
			return wrong(at+".fault", "stands beside a fact that did not fail")
		}
		return nil
	default:
		return wrong(at+".state", "is %d, which this build does not know", m.GetState())
	}
}

// check refuses nil: it is called where a fault must stand. causes is how many
// may stand below it.
func (m *Fault) check(at string, causes int) error {
	if m == nil {
		return wrong(at, "is missing")
	}
	err := first(
		checkNamed(at+".code", m.GetCode(), mostCode),
		checkText(at+".node", m.GetNode(), mostName),
		checkText(at+".component", m.GetComponent(), mostComponent),
		checkCount(at+".attrs", len(m.GetAttrs()), mostAttrs),
	)
	if err != nil {
		return err
	}
	for _, a := range m.GetAttrs() {
		err := first(
			checkNamed(at+".attrs.key", a.GetKey(), mostName),
			checkText(at+".attrs.value", a.GetValue(), mostValue),
		)
		if err != nil {
			return err
		}
	}
	switch cause := m.GetCause().(type) {
	case *Fault_Fault:
		if causes == 0 {
			return wrong(at+".cause", "is deeper than %d causes", mostCauses)
		}
		return cause.Fault.check(at+".fault", causes-1)
	case *Fault_Text:
		return checkText(at+".text", cause.Text, mostValue)
	}
	return nil
}
