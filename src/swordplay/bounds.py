from dataclasses import dataclass
class Certificate: pass
def certify(*a): pass
