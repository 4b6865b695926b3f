// Optimisers: one program per tensor, which reads each value once and writes what has changed in place.
#include <functional>

#include "capi/adapters/formula_call.h"

namespace opsnn::capi {
namespace {

// The terms that a step needs, by name; what is absent is not asked for.
class Update {
 public:
  // A tensor of the step: read, and written where the result has a term for it.
  void Tensor(const char* name, const Operand& o, bool changes) {
    names_.push_back(name), inputs_.push_back(o), changes_.push_back(changes);
  }
  // A tensor of one value for all elements.
  void Number(const char* name, const Operand& o) { Tensor(name, WithView(o, Dims(), Dims()), false); }

  class Terms {
   public:
    Terms(const Update& step, Formula& f) : step_(step), f_(f) {}
    Term operator[](const char* name) const { return f_.In(step_.Index(name)); }
    bool Has(const char* name) const { return step_.Index(name) < step_.names_.size(); }
    void Set(const char* name, Term value) { results_.emplace_back(step_.Index(name), value); }
    Formula& formula() { return f_; }

   private:
    friend class Update;
    const Update& step_;
    Formula& f_;
    std::vector<std::pair<size_t, Term>> results_;
  };

  // body sets every tensor that changes.
  OpCall Call(const std::function<void(Terms&)>& body) const {
    std::vector<Operand> outputs;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (changes_[i]) outputs.push_back(inputs_[i]);
    }
    return FormulaCall(inputs_, std::move(outputs), 0, [&](ProgramBuilder&, Formula& f) {
      Terms terms(*this, f);
      body(terms);
      std::vector<Term> in_order;
      for (size_t i = 0; i < inputs_.size(); ++i) {
        for (const auto& [index, value] : terms.results_) {
          if (index == i) in_order.push_back(value);
        }
      }
      return in_order;
    });
  }

 private:
  size_t Index(std::string_view name) const {
    size_t i = 0;
    while (i < names_.size() && name != names_[i]) ++i;
    return i;
  }
  std::vector<const char*> names_;
  std::vector<Operand> inputs_;
  std::vector<bool> changes_;
};

Status RequireOne(const Call& call, const Operand& o) {
  if (NumElements(o.desc.dims) == 1) return OkStatus();
  return InvalidArgument("%s: %s has shape %s; allowed: one element", call.function().api,
                         NameOf(call, o).c_str(), ToString(o.desc.dims).c_str());
}

// The count of steps: one for all elements, or one for each.
Status AddSteps(const Call& call, const Operand& o, const Operand& var, Update* step) {
  if (o.desc.dims == var.desc.dims) {
    step->Tensor("step", o, false);
    return OkStatus();
  }
  OPSNN_RETURN_IF_ERROR(RequireOne(call, o));
  step->Number("step", o);
  return OkStatus();
}

// m and v of Adam after gradient g.
struct Moments {
  Term m, v;
};
Moments Advance(Update::Terms& t, Term g, Term beta1, Term beta2) {
  return {t["m"] * beta1 + g * (1.0 - beta1), t["v"] * beta2 + g * g * (1.0 - beta2)};
}

// AdamW with decoupled weight decay. The largest v so far takes the place of v where `most` is given.
void AdamW(Update::Terms& t, Term g, Term beta1, Term beta2, Term power1, Term power2, Term lr, Term decay,
           Term eps, bool store_most) {
  const Moments next = Advance(t, g, beta1, beta2);
  const bool capped = t.Has("most");
  const Term v = capped ? Max(t["most"], next.v) : next.v;
  const Term step = next.m / (1.0 - power1) / (Sqrt(v / (1.0 - power2)) + eps);
  t.Set("var", t["var"] - lr * step - lr * decay * t["var"]);
  t.Set("m", next.m);
  t.Set("v", next.v);
  if (capped && store_most) t.Set("most", v);
}

// The tensors that ApplyAdamW and its successors have in common.
Status AddState(const Call& call, const Operand& var, std::initializer_list<const char*> state,
                const Operand& grad, Update* step) {
  step->Tensor("var", var, true);
  const char* const names[] = {"m", "v"};
  size_t i = 0;
  for (const char* p : state) {
    const Operand o = Arg(call, p);
    OPSNN_RETURN_IF_ERROR(RequireLike(call, o, var));
    step->Tensor(names[i++], o, true);
  }
  OPSNN_RETURN_IF_ERROR(RequireLike(call, grad, var));
  step->Tensor("grad", grad, false);
  return OkStatus();
}

Status AddNumbers(const Call& call, std::initializer_list<const char*> params, Update* step) {
  for (const char* p : params) {
    const Operand o = Arg(call, p);
    OPSNN_RETURN_IF_ERROR(RequireOne(call, o));
    step->Number(p, o);
  }
  return OkStatus();
}

// Numbers that their page holds to 0 and above, or to a share from 0 to 1.
Status RequireNotNegative(const Call& call, std::initializer_list<const char*> params) {
  for (const char* p : params)
    if (!(call.Double(p) >= 0)) return BadValue(call, p, StrFormat("%g", call.Double(p)), "0 or more");
  return OkStatus();
}
Status RequireShares(const Call& call, std::initializer_list<const char*> params) {
  for (const char* p : params) {
    const double v = call.Double(p);
    if (!(v >= 0 && v <= 1)) return BadValue(call, p, StrFormat("%g", v), "0 to 1");
  }
  return OkStatus();
}

// base^t, where t is a tensor.
Term PowerOf(Update::Terms& t, double base, const char* step) {
  return Pow(t.formula().Const(base), t[step]);
}

}  // namespace

Status Adapt_ApplyAdamW(const Call& call, OpCall& out) {
  const Operand var = Arg(call, "varRef");
  const bool by_step = call.function().Find("step") >= 0;
  const char* most = by_step ? "maxGradNormOptionalRef" : "maxGradNormOptional";
  const bool amsgrad = call.Int("amsgrad") != 0, maximize = call.Int("maximize") != 0;
  Update step;
  OPSNN_RETURN_IF_ERROR(AddState(call, var, {"mRef", "vRef"}, Arg(call, "grad"), &step));
  if (amsgrad) {
    const Operand o = Arg(call, most);
    if (!o.given()) return Errorf(Code::kNull, "%s: %s is null; amsgrad needs it", call.function().api, most);
    OPSNN_RETURN_IF_ERROR(RequireLike(call, o, var));
    step.Tensor("most", o, by_step);
  }
  if (by_step) {
    OPSNN_RETURN_IF_ERROR(AddSteps(call, Arg(call, "step"), var, &step));
    const double beta1 = call.Double("beta1"), beta2 = call.Double("beta2");
    Take(step.Call([&](Update::Terms& t) {
      Formula& f = t.formula();
      const Term g = maximize ? -t["grad"] : t["grad"];
      AdamW(t, g, f.Const(beta1), f.Const(beta2), PowerOf(t, beta1, "step"), PowerOf(t, beta2, "step"),
            f.Const(call.Double("lr")), f.Const(call.Double("weightDecay")), f.Const(call.Double("eps")),
            true);
    }),
         &out);
    return OkStatus();
  }
  OPSNN_RETURN_IF_ERROR(
      AddNumbers(call, {"beta1Power", "beta2Power", "lr", "weightDecay", "beta1", "beta2", "eps"}, &step));
  Take(step.Call([&](Update::Terms& t) {
    const Term g = maximize ? -t["grad"] : t["grad"];
    AdamW(t, g, t["beta1"], t["beta2"], t["beta1Power"] * t["beta1"], t["beta2Power"] * t["beta2"], t["lr"],
          t["weightDecay"], t["eps"], false);
  }),
       &out);
  return OkStatus();
}

Status Adapt_ApplyFusedEmaAdam(const Call& call, OpCall& out) {
  const Operand var = Arg(call, "varRef"), average = Arg(call, "sRef");
  const int64_t mode = call.Int("mode");
  if (mode != 0 && mode != 1) return BadValue(call, "mode", std::to_string(mode), "0, 1");
  OPSNN_RETURN_IF_ERROR(RequireShares(call, {"lr", "beta1", "beta2"}));
  Update step;
  OPSNN_RETURN_IF_ERROR(AddState(call, var, {"mRef", "vRef"}, Arg(call, "grad"), &step));
  OPSNN_RETURN_IF_ERROR(RequireLike(call, average, var));
  step.Tensor("average", average, true);
  OPSNN_RETURN_IF_ERROR(AddSteps(call, Arg(call, "step"), var, &step));
  const double decay = call.Double("weightDecay"), ema = call.Double("emaDecay");
  const double beta1 = call.Double("beta1"), beta2 = call.Double("beta2");
  Take(step.Call([&](Update::Terms& t) {
    Formula& f = t.formula();
    const Term g = mode == 0 ? t["grad"] + t["var"] * decay : t["grad"];
    const Moments next = Advance(t, g, f.Const(beta1), f.Const(beta2));
    Term m = next.m, v = next.v;
    if (call.Int("biasCorrection") != 0) {
      m = m / (1.0 - PowerOf(t, beta1, "step"));
      v = v / (1.0 - PowerOf(t, beta2, "step"));
    }
    Term update = m / (Sqrt(v) + call.Double("eps"));
    if (mode == 1) update = update + t["var"] * decay;
    const Term fresh = t["var"] - update * call.Double("lr");
    t.Set("var", fresh);
    t.Set("m", next.m);
    t.Set("v", next.v);
    t.Set("average", t["average"] * ema + fresh * (1 - ema));
  }),
       &out);
  return OkStatus();
}

// AdamW with 8-bit moments: places in tables, scaled by the largest of their block.
Status Adapt_ApplyAdamWQuant(const Call& call, OpCall& out) {
  const Operand var = Arg(call, "varRef"), grad = Arg(call, "grad"), step = Arg(call, "step");
  OPSNN_RETURN_IF_ERROR(RequireLike(call, grad, var));
  const int64_t n = NumElements(var.desc.dims), block = call.Int("blockSize");
  if (block != 256) return BadValue(call, "blockSize", std::to_string(block), "256");
  OPSNN_RETURN_IF_ERROR(RequireShares(call, {"lr", "beta1", "beta2", "weightDecay"}));
  OPSNN_RETURN_IF_ERROR(RequireOne(call, step));
  std::vector<Operand> inputs = {WithDType(var, DType::kF32), WithDType(grad, DType::kF32)};
  const Dims blocks = {(n + block - 1) / block}, table = {block};
  for (const char* name : {"mRef", "vRef"}) {
    inputs.push_back(Arg(call, name));
    OPSNN_RETURN_IF_ERROR(RequireSameShape(call, inputs.back(), var));
  }
  for (const char* name : {"qmapM", "qmapV"}) {
    inputs.push_back(Arg(call, name));
    OPSNN_RETURN_IF_ERROR(RequireShape(call, inputs.back(), table, "the values that moments take"));
  }
  for (const char* name : {"absmaxMRef", "absmaxVRef"}) {
    inputs.push_back(Arg(call, name));
    OPSNN_RETURN_IF_ERROR(RequireShape(call, inputs.back(), blocks, "one value per block of 256"));
  }
  std::vector<Operand> outputs = {inputs[0], inputs[2], inputs[3], inputs[6], inputs[7]};
  inputs.push_back(WithView(step, {1}, {1}));
  Take(CallOf("AdamWQuant", std::move(inputs), std::move(outputs)), &out);
  const std::pair<const char*, const char*> kNumbers[] = {{"lr", "lr"},       {"beta1", "beta1"},
                                                          {"beta2", "beta2"}, {"decay", "weightDecay"},
                                                          {"eps", "eps"},     {"scale", "gnormScale"}};
  for (const auto& [attr, param] : kNumbers) out.attrs.Set(attr, call.Double(param));
  out.attrs.Set("block", block);
  return OkStatus();
}

// m and v stay as they are: the function gives only the step of var that follows from them.
Status Adapt_ApplyAdam(const Call& call, OpCall& out) {
  const Operand var = Arg(call, "varRef");
  Update step;
  step.Tensor("var", var, true);
  for (const char* name : {"m", "v", "grad"}) {
    const Operand o = Arg(call, name);
    OPSNN_RETURN_IF_ERROR(RequireLike(call, o, var));
    step.Tensor(name, o, false);
  }
  OPSNN_RETURN_IF_ERROR(
      AddNumbers(call, {"beta1Power", "beta2Power", "lr", "beta1", "beta2", "epsilon"}, &step));
  const bool nesterov = call.Int("useNesterov") != 0;
  Take(step.Call([&](Update::Terms& t) {
    const Moments next = Advance(t, t["grad"], t["beta1"], t["beta2"]);
    const Term rate = t["lr"] * Sqrt(1.0 - t["beta2Power"]) / (1.0 - t["beta1Power"]);
    const Term m = nesterov ? next.m * t["beta1"] + (1.0 - t["beta1"]) * t["grad"] : next.m;
    t.Set("var", t["var"] - rate * m / (Sqrt(next.v) + t["epsilon"]));
  }),
       &out);
  return OkStatus();
}

namespace {

Status RequireLikeList(const Call& call, const char* param, const std::vector<Operand>& list,
                       const std::vector<Operand>& vars) {
  if (list.size() != vars.size()) {
    return BadValue(call, param, StrFormat("a list of %zu", list.size()),
                    StrFormat("%zu, as paramsRef", vars.size()));
  }
  for (size_t i = 0; i < list.size(); ++i) OPSNN_RETURN_IF_ERROR(RequireLike(call, list[i], vars[i]));
  return OkStatus();
}

// A momentum goes with buffers, and Nesterov's with a momentum that nothing damps.
Status CheckMomentum(const Call& call, bool buffers) {
  constexpr double kNothing = 1e-6;  // numbers below it count as 0, as published
  OPSNN_RETURN_IF_ERROR(RequireNotNegative(call, {"weightDecay", "momentum", "lr", "dampening"}));
  const double momentum = call.Double("momentum"), dampening = call.Double("dampening");
  const bool nesterov = call.Int("nesterov") != 0;
  if (nesterov && dampening >= kNothing)
    return BadValue(call, "dampening", StrFormat("%g", dampening), "0 where nesterov is true");
  if (buffers == (momentum >= kNothing) && !(nesterov && !buffers)) return OkStatus();
  return BadValue(call, "momentum", StrFormat("%g", momentum),
                  buffers    ? "above 0, as momentumBufferListOptionalRef is given"
                  : nesterov ? "above 0 with momentumBufferListOptionalRef, as nesterov is true"
                             : "0, as momentumBufferListOptionalRef is null");
}

}  // namespace

Status Adapt_FusedSgd(const Call& call, OpCall& out) {
  const std::vector<Operand> vars = Members(call, "paramsRef"), grads = Members(call, "gradsRef");
  const std::vector<Operand> buffers = Members(call, "momentumBufferListOptionalRef");
  if (vars.empty()) return BadValue(call, "paramsRef", "an empty list", "one tensor or more");
  OPSNN_RETURN_IF_ERROR(RequireLikeList(call, "gradsRef", grads, vars));
  if (!buffers.empty())
    OPSNN_RETURN_IF_ERROR(RequireLikeList(call, "momentumBufferListOptionalRef", buffers, vars));
  OPSNN_RETURN_IF_ERROR(CheckMomentum(call, !buffers.empty()));
  const Operand scale = Arg(call, "gradScaleOptional");
  const double momentum = call.Double("momentum"), decay = call.Double("weightDecay"), lr = call.Double("lr");
  const double damped = 1 - call.Double("dampening");
  std::vector<OpCall> calls;
  for (size_t i = 0; i < vars.size(); ++i) {
    Update step;
    step.Tensor("var", vars[i], true);
    step.Tensor("grad", grads[i], scale.given());  // keeps what was scaled
    if (!buffers.empty()) step.Tensor("momentum", buffers[i], true);
    if (scale.given()) OPSNN_RETURN_IF_ERROR(AddNumbers(call, {"gradScaleOptional"}, &step));
    calls.push_back(step.Call([&](Update::Terms& t) {
      const Term scaled = scale.given() ? t["grad"] / t["gradScaleOptional"] : t["grad"];
      const Term g = (call.Int("maximize") != 0 ? -scaled : scaled) + t["var"] * decay;
      Term direction = g;
      if (t.Has("momentum")) {
        const Term v = call.Int("isFirstStep") != 0 ? g : t["momentum"] * momentum + g * damped;
        direction = call.Int("nesterov") != 0 ? g + v * momentum : v;
        t.Set("momentum", v);
      }
      t.Set("var", t["var"] - direction * lr);
      if (scale.given()) t.Set("grad", scaled);
    }));
  }
  return TakeAll(std::move(calls), &out);
}

Status Adapt_FusedAdamW(const Call& call, OpCall& out) {
  const std::vector<Operand> vars = Members(call, "paramsRef"), steps = Members(call, "stateSteps");
  if (vars.empty()) return BadValue(call, "paramsRef", "an empty list", "one tensor or more");
  OPSNN_RETURN_IF_ERROR(RequireNotNegative(call, {"lr", "beta1", "beta2", "weightDecay"}));
  const bool amsgrad = call.Int("amsgrad") != 0;
  const struct {
    const char *param, *name;
    bool changes;
  } kLists[] = {{"grads", "grad", false},
                {"expAvgsRef", "m", true},
                {"expAvgSqsRef", "v", true},
                {"maxExpAvgSqsRef", "most", true}};
  std::vector<std::vector<Operand>> lists;
  for (const auto& l : kLists) {
    if (std::string_view(l.name) == "most" && !amsgrad) continue;
    lists.push_back(Members(call, l.param));
    OPSNN_RETURN_IF_ERROR(RequireLikeList(call, l.param, lists.back(), vars));
  }
  if (steps.size() != vars.size()) {
    return BadValue(call, "stateSteps", StrFormat("a list of %zu", steps.size()),
                    StrFormat("%zu, as paramsRef", vars.size()));
  }
  const double beta1 = call.Double("beta1"), beta2 = call.Double("beta2");
  std::vector<OpCall> calls;
  for (size_t i = 0; i < vars.size(); ++i) {
    Update step;
    step.Tensor("var", vars[i], true);
    for (size_t l = 0; l < lists.size(); ++l) step.Tensor(kLists[l].name, lists[l][i], kLists[l].changes);
    OPSNN_RETURN_IF_ERROR(AddSteps(call, steps[i], vars[i], &step));
    for (const char* p : {"gradScaleOptional", "foundInfOptional"}) {
      if (call.Given(p)) OPSNN_RETURN_IF_ERROR(AddNumbers(call, {p}, &step));
    }
    calls.push_back(step.Call([&](Update::Terms& t) {
      Formula& f = t.formula();
      Term g = call.Int("maximize") != 0 ? -t["grad"] : t["grad"];
      if (t.Has("gradScaleOptional")) g = g / t["gradScaleOptional"];
      const Moments next = Advance(t, g, f.Const(beta1), f.Const(beta2));
      const Term corrected = next.v / (1.0 - PowerOf(t, beta2, "step"));
      const Term v = amsgrad ? Max(t["most"], corrected) : corrected;
      const Term update = next.m / (1.0 - PowerOf(t, beta1, "step")) / (Sqrt(v) + call.Double("eps"));
      const Term var = t["var"] - (update + t["var"] * call.Double("weightDecay")) * call.Double("lr");
      // A gradient that is not finite leaves everything as it is.
      auto set = [&](const char* name, Term value) {
        if (t.Has("foundInfOptional")) value = Select(Equal(t["foundInfOptional"], 1.0), t[name], value);
        t.Set(name, value);
      };
      set("var", var);
      set("m", next.m);
      set("v", next.v);
      if (amsgrad) set("most", v);
    }));
  }
  return TakeAll(std::move(calls), &out);
}

}  // namespace opsnn::capi
