"""The card reports faults."""

from __future__ import annotations

from slowtrain.causes import Cause
from slowtrain.causes.judged import Judged


class FaultyGpu(Judged, Cause):
    """The card reports memory errors, or the driver faults of it.

    ## What it means
    Memory that fails is retired or remapped, links repeat what got lost, and a card that falls off the bus ends
    the run. Training on such a card may be slow, stop, or be wrong.

    ## How it is recognised
    The driver's counters of uncorrectable memory errors, of rows that could not be remapped or pages that wait
    to be retired; and the XIDs in the kernel's log that stand for the card and for no program. Cards without
    ECC count nothing, and a log that this user may not read tells nothing: then it is unchecked.

    ## What to do
    Reset the card or reboot, so that bad memory is put out of use. If it comes back, have the card replaced; in
    a rented machine take another.

    ## When it is not worth it
    Corrected errors and a few retired pages in a card's life are usual: `slowtrain doctor` counts them, and calls
    them fine.
    """

    title = "The GPU reports faults"
    machine_topic = "card health"
    doctor_rank = 30

    fires = (
        """
        @once
        @fact machine={"gpu":{"devices":[{"index":0,"name":"A100","ecc_mode":true,"ecc_uncorrected":3}]}}
        """,
        """
        @once
        @fact machine={"gpu":{"devices":[{"index":0,"name":"A100","ecc_mode":true,"ecc_uncorrected":0,
        & "pci_address":"00000000:3B:00.0"}]},"kernel_log":{"xids":[{"address":"0000:3b:00","code":79,"count":1}]}}
        """,
    )
    quiet = (
        """
        @once
        @fact machine={"gpu":{"devices":[{"index":0,"name":"A100","ecc_mode":true,"ecc_uncorrected":0,
        & "pci_address":"00000000:3B:00.0"}]},"kernel_log":{"xids":[{"address":"0000:af:00","code":79,"count":1}]}}
        """,
        """
        @once
        @fact machine={"gpu":{"devices":[{"index":0,"name":"A100","ecc_mode":true,"ecc_uncorrected":0,
        & "remapped_rows":1}]},"kernel_log":{"xids":[{"address":"0000:3b:00","code":31,"count":1}]}}
        """,
    )
