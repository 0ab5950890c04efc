package controlpb

import "fmt"

func checkStage(at string, run []byte, attempt uint32) error {
	return first(checkRun(at+".run_id", run), checkAttempt(at+".attempt", attempt))
}

func (m *StageProgress) check(at string) error {
	return first(
		checkStage(at, m.GetRunId(), m.GetAttempt()),
		checkNamed(at+".phase", m.GetPhase(), mostName),
		checkText(at+".detail", m.GetDetail(), mostDetail),
	)
}

func (m *StageReady) check(at string) error {
	return first(
		checkStage(at, m.GetRunId(), m.GetAttempt()),
		m.GetLayers().check(at+".layers"),
		checkAmount(at+".token_micros", m.GetTokenMicros()),
		checkFigure(at+".threads", m.GetThreads()),
		checkAmount(at+".chunk_micros", m.GetChunkMicros()),
		checkFigure(at+".chunk_tokens", m.GetChunkTokens()),
	)
}

func (m *StageFigures) check(at string) error {
	if m == nil {
		return nil
	}
	return first(
		checkStage(at, m.GetRunId(), m.GetAttempt()),
		checkNamed(at+".phase", m.GetPhase(), mostName),
		m.GetIn().check(at+".in"),
		m.GetOut().check(at+".out"),
	)
}

func (m *EdgeFigures) check(at string) error {
	return first(
		checkText(at+".phase", m.GetPhase(), mostName),
		checkAmount(at+".still_micros", m.GetStillMicros()),
	)
}

func (m *TearDown) check(at string) error {
	err := first(
		checkStage(at, m.GetRunId(), m.GetAttempt()),
		checkBoot(at+".boot_id", m.GetBootId()),
	)
	if err != nil || m.GetReason() == nil {
		return err
	}
	return m.GetReason().check(at+".reason", mostCauses)
}

// check lets a dry run be without a stage: it asks for nothing but the boot.
func (m *Provision) check(at string) error {
	if err := checkBoot(at+".boot_id", m.GetBootId()); err != nil || m.GetDryRun() {
		return err
	}
	return first(
		checkStage(at, m.GetRunId(), m.GetAttempt()),
		m.checkShard(at),
		m.GetIn().check(at+".in"),
		m.GetOut().check(at+".out"),
	)
}

// checkShard looks at what an order and an offer have in common.
func (m *Provision) checkShard(at string) error {
	return first(
		checkBoot(at+".boot_id", m.GetBootId()),
		m.GetModel().check(at+".model"),
		m.GetLayers().check(at+".layers"),
		checkPlace(at+".stage", m.GetStage(), m.GetStages()),
		m.GetRecipe().check(at+".recipe"),
		m.GetDeadlines().check(at+".deadlines"),
		checkSome(at+".epoch", m.GetEpoch() == 0),
	)
}

func (m *Offer) check(at string) error {
	return first(
		checkBoot(at+".boot_id", m.GetBootId()),
		checkNamed(at+".model", m.GetModel(), mostName),
		m.GetLayers().check(at+".layers"),
		checkAttempt(at+".attempt", m.GetAttempt()),
	)
}

func (m *OfferChanged) check(at string) error {
	err := first(
		m.GetLayers().check(at+".layers"),
		checkNamed(at+".phase", m.GetPhase(), mostName),
		checkText(at+".detail", m.GetDetail(), mostDetail),
		checkAmount(at+".again_micros", m.GetAgainMicros()),
	)
	if err != nil || m.GetFault() == nil {
		return err
	}
	return m.GetFault().check(at+".fault", mostCauses)
}

func checkPlace(field string, stage, stages uint32) error {
	if stages > mostStages {
		return wrong(field, "is one of %d, at most %d are taken", stages, mostStages)
	}
	if stage >= stages {
		return wrong(field, "is %d of %d, counted from 0", stage, stages)
	}
	return nil
}

func (m *ModelSource) check(at string) error {
	err := first(
		checkText(at+".name", m.GetName(), mostName),
		checkNamed(at+".revision", m.GetRevision(), mostRevision),
		checkCount(at+".parts", len(m.GetParts()), mostParts),
	)
	if err != nil {
		return err
	}
	if len(m.GetParts()) == 0 {
		return wrong(at+".parts", "is empty")
	}
	if len(m.GetManifestJson()) == 0 {
		return wrong(at+".manifest_json", "is empty")
	}
	for i, p := range m.GetParts() {
		at := fmt.Sprintf("%s.parts[%d]", at, i)
		err := first(
			checkAmount(at+".size_bytes", p.GetSizeBytes()),
			checkText(at+".path", p.GetPath(), mostDetail),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *Layers) check(at string) error {
	if m.GetStart() >= m.GetEnd() || m.GetEnd() > mostLayers {
		return wrong(at, "is [%d,%d), which holds no layers of a model", m.GetStart(), m.GetEnd())
	}
	return nil
}

// check bounds the figures only; what they must be for a model is decided where
// the model is known.
func (m *Recipe) check(at string) error {
	if m == nil {
		return wrong(at, "is missing")
	}
	return first(
		checkFigure(at+".context", m.GetContext()),
		checkFigure(at+".slots", m.GetSlots()),
		checkFigure(at+".chunk", m.GetChunk()),
		checkFigure(at+".threads", m.GetThreads()),
		checkNamed(at+".kv_type", m.GetKvType(), mostName),
		checkNamed(at+".flash_attention", m.GetFlashAttention(), mostName),
		checkFigure(at+".gpu_layers", m.GetGpuLayers()),
	)
}

func (m *EdgeSpec) check(at string) error {
	return first(
		checkEdge(at+".edge_id", m.GetEdgeId()),
		checkNode(at+".peer_id", m.GetPeerId()),
		checkAddresses(at+".addresses", m.GetAddresses()),
	)
}

func (m *StageDeadlines) check(at string) error {
	return first(
		checkAmount(at+".weights_micros", m.GetWeightsMicros()),
		checkAmount(at+".load_micros", m.GetLoadMicros()),
		checkAmount(at+".connect_micros", m.GetConnectMicros()),
		checkAmount(at+".tear_down_micros", m.GetTearDownMicros()),
		checkAmount(at+".admit_micros", m.GetAdmitMicros()),
	)
}
