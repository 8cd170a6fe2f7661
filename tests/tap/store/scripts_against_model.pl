# Tests the feed's scripts against a simple model, with random calls in random order.
#
# A seeded run calls acquisitions, batches (new, repeated, overlapping, with holes, of feeds that lost the slot; as
# scripts and as transactions), resets, delivery reports, acks and drops, and empties the store. CLAIRON_SCRIPTS_SEED=n repeats
# a run; CLAIRON_SCRIPTS_STEPS=n makes it longer.
use strict;
use warnings;

use Clairon::Test qw(script_text amount top);
use JSON ();
use List::Util qw(sum);
use Test::More;

my $STEPS = $ENV{CLAIRON_SCRIPTS_STEPS} // amount(400, 5000);
my $SEED  = $ENV{CLAIRON_SCRIPTS_SEED} // int(rand(1_000_000));
srand $SEED;
note "seed $SEED, $STEPS steps";

my $store = Clairon::Test::store();

# Lua limits the local names of a script to 200.
my $room = 'local ' . join(', ', map { "room$_" } 1 .. 20) . "\n";
my @names = map { m{(\w+)\.lua$} } glob top() . '/build/gen/scripts/*.lua';
cmp_ok(scalar @names, '>', 30, 'the scripts are found');
is_deeply([ grep { !eval { $store->execute('SCRIPT', 'LOAD', $room . script_text($_)) } } @names ], [], 'each script has room for 20 further local names');

my %model;
my %replies;    # the number of occurrences of each reply

# With this limit of pairs in a call, most batches take several calls, and audiences of more users are staged.
my $PAIRS_MAX = 3;
my %script = map { $_ => script_text($_) =~ s/\b4000\b/$PAIRS_MAX/gr } qw(hello start_position acquire ingest stage fence rewind report ack drop pending_page delete_members);

my @TARGETS  = qw(t1 t2);
my $STREAM   = 'c:stream';
my $PROGRESS = 'c:progress:s';
my $PAIRS    = 1000;    # of an owner per minute

# Returns the reply of a script, or the first word of its error.
sub run_script
{
    my ($name, $keys, @args) = @_;
    my $reply = eval { $store->execute('EVAL', $script{$name}, scalar @$keys, @$keys, @args) };
    return $reply // error_code($@);
}

# Returns the number of pairs of the records whose users were not staged.
sub pairs { return sum(0, map { $store->execute('HLEN', "c:ack:$_->[2]") } grep { $_->[0] eq 'A' } @_) }

# Stores a batch in as many calls as it needs, like ingest.c. Returns the reply to the last call, and true if the feed
# died before the last call: then only the records up to the reply's position are stored.
sub ingest
{
    my ($epoch, $owner, $after, $read, @records) = @_;
    my $calls = 0;
    while (1)
    {
        my $pairs = pairs(@records);
        my $reply = run_script('ingest', [ $STREAM, $PROGRESS ], 'c', $epoch, $owner, $after, $read, q{}, $PAIRS, q{}, map { @$_ } @records);
        my $added = pairs(@records) - $pairs;
        same('the number of pairs in a call', $added > $PAIRS_MAX ? $added : 'limited', 'limited');
        return ($reply, 0) unless ref $reply && @$reply == 7;
        die 'endless' if $calls++ > 100;
        $replies{partial}++;
        return ($reply, 1) if rand() < 0.1;
        same('a later batch', run_script('ingest', [ $STREAM, $PROGRESS ], 'c', $epoch, $owner, 'g', '', q{}, $PAIRS), 'WAIT');
        my ($at, $index) = (0, $reply->[4]);
        $replies{cut}++ unless $reply->[5];    # the next audience fits into the next call
        next unless $reply->[5];
        while ($index > 0) { $index -= @{ $records[ $at++ ] } }
        my ($id, $audience, $count, @targets) = @{ $records[$at] }[ 2, 5 .. $#{ $records[$at] } ];
        my ($target, $cursor) = (1, '');
        while ($target)
        {
            my $step = run_script('stage', [$STREAM], 'c', $epoch, $PROGRESS, $owner, $id, $target, $cursor, 'A', $audience, @targets);
            ref $step or die "stage: $step";
            ($target, $cursor) = @$step;
            $replies{staged}++;
            return ($reply, 1) if rand() < 0.05;
        }
        $records[$at] = [ 'S', @{ $records[$at] }[ 1 .. $#{ $records[$at] } ] ];
    }
}

# Returns the ids of a user's pending notifications, read page by page.
sub pending_list
{
    my ($user) = @_;
    my ($after, @ids) = (0);
    # Without its stream entry, a notification is still pending.
    return (@{ $store->execute('ZRANGE', "c:pending_list:$user", 0, -1) },
        grep { ($store->execute('HGET', "c:ack:$_", $user) // '') eq '0' } @{ $store->execute('ZRANGE', 'c:shared_pending_list', 0, -1) })
      if $model{has_lost};
    while ($after ne '')
    {
        ($after, my $entries) = @{ run_script('pending_page', [$STREAM], 'c', $user, $after, '+inf', 3, '', 'all') };
        push @ids, map { my %field = @{ $_->[1] }; $field{id} } @$entries;
    }
    return @ids;
}

sub error_code { my ($error) = @_; return $error =~ /\b(FENCED|BEHIND|EPOCH|OTHERSYSTEM|OTHERDATABASE|OLDTIMELINE)\b/ ? $1 : $error }

my @USERS    = map { "u$_" } 1 .. 6;

my ($TIMEOUT, $OWN_TIMEOUT) = (60_000, 50_000_000);    # the setting, and that of a rule

# Simulates the WAL: records in LSN order. After a fork, all records are new.
my (@wal, $ids, $lsn);

sub position { return sprintf '%016x%016x', @_ }
sub one_of { return $_[ rand @_ ] }

sub write_wal
{
    my ($count) = @_;
    for (1 .. $count)
    {
        $lsn += 1 + int rand 50;
        my $record = { at => position($lsn, 1), lsn => sprintf('%016x', $lsn + 1), kind => one_of(qw(N N A A A + - C)) };
        $record->{id} = sprintf '%08x-0000-8000-8000-%012x', $ids, $ids++ if $record->{kind} =~ /[NA]/;
        $record->{timeout} = one_of('none', 0, $OWN_TIMEOUT) if $record->{kind} eq 'A';    # none: no retries
        if ($record->{kind} eq 'A' && rand() < 0.5)
        {
            @$record{qw(audience targets)} = ('TEAM', [ one_of(@TARGETS) ]);
        }
        elsif ($record->{kind} eq 'A')
        {
            @$record{qw(audience targets)} = ('USER', [ map { one_of(@USERS) } 1 .. 1 + int rand 5 ]);
        }
        @$record{qw(target user)} = (one_of(@TARGETS), one_of(@USERS)) if $record->{kind} =~ /[+-]/;
        push @wal, $record;
    }
    return;
}

sub arguments
{
    my ($record) = @_;
    my @start = @$record{qw(kind at)};
    return @start if $record->{kind} eq 'C';
    return (@start, 'TEAM', @$record{qw(target user)}, 7421) if $record->{kind} =~ /[+-]/;
    my $route = "\0" x 104;
    my $flags = ($record->{timeout} // 'none') eq 'none' ? 1 : $record->{timeout} ? 0x13 : 3;    # acks, retries, ack timeout
    substr $route, 7, 1, chr $flags;
    substr $route, 76, 4, pack 'N', $flags & 0x10 ? $record->{timeout} : 0;
    my @frame = (@start, $record->{id}, $route, "{\"id\":\"$record->{id}\"}");
    return @frame if $record->{kind} eq 'N';
    return (@frame, $record->{audience}, scalar @{ $record->{targets} }, @{ $record->{targets} });
}

# ---- the model

sub empty_model { %model = (stream => [], members => {}, wait => {}, open => {}, epoch => $model{epoch}); return }

sub model_record
{
    my ($record) = @_;
    my ($kind, $id) = @$record{qw(kind id)};
    push @{ $model{stream} }, $id if $id;
    $model{members}{ $record->{target} }{ $record->{user} } = 1 if $kind eq '+';
    delete $model{members}{ $record->{target} }{ $record->{user} } if $kind eq '-';
    return unless $kind eq 'A';
    my @users = $record->{audience} eq 'USER' ? @{ $record->{targets} }
      : map { keys %{ $model{members}{$_} // {} } } @{ $record->{targets} };
    $model{wait}{$id} = { map { $_ => 1 } @users };
    $model{open}{$id} = 1 unless @users;
    return;
}

sub model_ingest
{
    my ($owner, $epoch, $after, $read, @records) = @_;
    return 'EPOCH' if $epoch ne ($model{epoch} // '') || $model{gone};
    return 'FENCED' if ($model{owner} // '') ne $owner;
    return 'BEHIND' if ($model{position} // '') lt $after;
    my @fresh = grep { $_->{at} gt ($model{position} // '') } @records;
    model_record($_) for @fresh;
    $model{position} = $fresh[-1]{at} if @fresh;
    $model{position} //= '';
    $model{read} = $read if $read gt ($model{read} // '');
    return [ $model{position}, scalar(grep { $_->{id} } @fresh), @records - @fresh ];
}

# Models a batch that is sent as a transaction, without a script. A feed sends only notifications after its start
# position, so a rejected batch has no effect.
sub model_transaction
{
    my ($owner, $epoch, $after, $read, @records) = @_;
    my $rejection = $epoch ne ($model{epoch} // '') || $model{gone} ? 'EPOCH'
      : ($model{owner} // '') ne $owner ? 'FENCED' : ($model{position} // '') lt $after ? 'BEHIND' : undef;
    if ($rejection)
    {
        $model{owner} = "$owner-" if ($model{owner} // '') eq $owner;    # the owner must acquire the progress again
        return $rejection;
    }
    model_record($_) for @records;
    $model{position} = $records[-1]{at};
    $model{read} = $read if $read gt ($model{read} // '');
    return 1;
}

# ---- steps: each runs on the store and in the model, and compares the results

my $step = 0;
my $good = 1;

sub same
{
    my ($what, $got, $wanted) = @_;
    $replies{ ref $wanted ? 'stored' : $wanted }++;
    return if !$good || ($good = is_same($got, $wanted));
    is_deeply($got, $wanted, "step $step: $what agrees with the model");
    return;
}

# Compares like is_deeply(), but without printing a test result.
sub is_same
{
    my ($got, $wanted) = @_;
    return ref $wanted ? ref $got && "@$got" eq "@$wanted" : !ref $got && $got eq $wanted;
}

sub hello
{
    my $reply = run_script('hello', [$STREAM], 'c', sprintf('%016x', rand 2**32), '', '0-0', 1, 1);
    $model{epoch} = $reply->[0];
    delete $model{gone};
    return;
}

# Returns which ack timeout a pair is due after.
sub timeout_of
{
    my ($pair) = @_;
    my $due = $store->execute('ZSCORE', 'c:due', $pair) // return 'none';
    return $due > 1000 * $store->execute('TIME')->[0] + $OWN_TIMEOUT / 2 ? $OWN_TIMEOUT : 0;
}

sub missing_replies { return grep { !$replies{$_} } qw(stored partial cut staged WAIT FENCED BEHIND EPOCH OTHERSYSTEM OTHERDATABASE OLDTIMELINE) }

# As a relay does at its next acquire.lua.
sub delete_members
{
    my $cursor = '0';
    do { $cursor = run_script('delete_members', [$STREAM], 'c', $cursor) } until $cursor eq '0';
    $model{members} = {};
    return;
}

my @owners = qw(one two);
my %steps  = (
    acquire => sub {
        my ($owner, $system) = (one_of(@owners), rand() < 0.1 ? 'other' : 'ours');
        my $database = rand() < 0.1 ? 17 : 16;
        my $timeline = rand() < 0.1 ? 0 : $model{timeline} // 1;
        my $reply = run_script('acquire', [$PROGRESS], $owner, $system, $timeline, '', $database, "db $database");
        my $wanted = exists $model{system} && $system ne $model{system} ? 'OTHERSYSTEM'
          : exists $model{system} && $database ne $model{database} ? 'OTHERDATABASE'
          : ($model{timeline} // 0) > $timeline ? 'OLDTIMELINE'
          : [ $model{position} // '', $model{timeline} // $timeline, $model{read} // '', '', '' ];
        @model{qw(owner system database timeline)} = ($owner, $system, $database, $model{timeline} // $timeline) if ref $wanted;
        same('acquire', $reply, $wanted);
    },
    ingest => sub {
        write_wal(1 + int rand 20);
        # The start is the store's position, or slightly before or after it.
        my $at = grep { $_->{at} le ($model{position} // '') } @wal;
        my $from = $at + int(rand 13) - 9;
        $from = 0 if $from < 0;
        $from = $#wal if $from > $#wal;
        my $to = $from + int rand(@wal - $from);
        # Most batches are one notification and its commit.
        ($from) = one_of(grep { $wal[$_]{kind} eq 'N' && $wal[ $_ + 1 ]{kind} eq 'C' } 0 .. $#wal - 1) // $from if rand() < 0.3;
        $to = $from + 1 if $wal[$from]{kind} eq 'N' && $from < $#wal && rand() < 0.5;
        my @records = rand() < 0.1 ? () : @wal[ $from .. $to ];
        my $after = $from > 0 ? $wal[ $from - 1 ]{at} : '';
        my $read  = @records && rand() < 0.7 ? $records[-1]{lsn} : '';
        my $epoch = rand() < 0.05 ? 'another' : $model{epoch};
        my $owner = rand() < 0.9 ? $model{owner} // 'one' : one_of(@owners);
        my $start = $model{position} // '';
        my ($reply, $died) = ingest($epoch, $owner, $after, $read, map { [ arguments($_) ] } @records);
        # A feed that dies stores a part of the batch.
        my ($stored, $stored_read) = $died ? ([ grep { $_->{at} le $reply->[0] } @records ], '') : (\@records, $read);
        my $wanted = model_ingest($owner, $epoch, $after, $stored_read, @$stored);
        # The store chooses the id of the last entry. Later calls skip what the first has added.
        $reply = $reply->[0] if ref $reply;
        same('ingest', $reply, ref $wanted ? $wanted->[0] : $wanted);
        $replies{stored}++ if ref $wanted;
        return unless $died;
        # The next feed repeats the batch from the start. The dead feed can no longer stage users.
        my $next = one_of(grep { $_ ne $owner } @owners);
        run_script('acquire', [$PROGRESS], $next, $model{system}, $model{timeline}, '', $model{database}, 'db');
        $model{owner} = $next;
        same('stage', run_script('stage', [$STREAM], 'c', $epoch, $PROGRESS, $owner, 'late', 1, '', 'A', 'USER', 'u1'), 'FENCED');
    },
    transaction => sub {
        write_wal(1 + int rand 20);
        my @records = grep { $_->{at} gt ($model{position} // '') } @wal;
        my $after = $model{position} // '';
        # The previous batch may have been rejected.
        $after = (splice @records, 0, 1 + int rand(@records - 1))[-1]{at} if @records > 1 && rand() < 0.1;
        my ($end) = (grep({ $records[$_]{kind} !~ /[NC]/ } 0 .. $#records), scalar @records);
        @records = @records[ 0 .. $end - 1 ] or return;
        my $epoch = rand() < 0.05 ? 'another' : $model{epoch};
        my $owner = rand() < 0.8 ? $model{owner} // 'one' : one_of(@owners);
        my $read  = $records[-1]{lsn} gt ($model{read} // '') ? $records[-1]{lsn} : '';
        my @notifications = grep { $_->{id} } @records;
        $store->execute('MULTI');
        for (@notifications)
        {
            my @field = arguments($_);
            $store->execute('XADD', $STREAM, 'NOMKSTREAM', '*', 'id', $field[2], 'route', $field[3], 'data', $field[4]);
        }
        $store->execute('EVAL', $script{fence}, 2, $STREAM, $PROGRESS, 'c', $epoch, $owner, scalar @notifications, $after);
        $store->execute('HMSET', $PROGRESS, "position:$owner", $records[-1]{at}, $read eq '' ? () : ("read:$owner", $read));
        my $reply = $store->execute('EXEC')->[-2];
        $reply = error_code($$reply[0]) if ref $reply;
        same('transaction', $reply, model_transaction($owner, $epoch, $after, $read, @records));
    },
    reset => sub {
        my $owner = one_of(@owners);
        my $rewound_to = rand() < 0.3 ? '' : @wal ? one_of(@wal)->{at} : '';
        my $read  = rand() < 0.5 ? substr($rewound_to, 0, 16) : '';
        my $epoch = rand() < 0.5 ? sprintf('%016x', rand 2**32) : '';
        my $undone = rand() < 0.5 ? sprintf('%016x', $lsn) : '';
        my $reply = run_script('rewind', [$PROGRESS], 'c', $owner, 2, $rewound_to, $epoch, $read, $undone, $rewound_to);
        my $is_ours = ($model{owner} // '') eq $owner;
        same('reset', $reply, $is_ours ? 1 : 'FENCED');
        return unless $is_ours;
        @model{qw(position timeline)} = ($rewound_to, 2);
        $model{read}    = $read  if $read ne '';
        $model{epoch}   = $epoch if $epoch ne '';
        delete_members() if $rewound_to eq '';
        # After this step, records belong to another WAL.
        @wal = grep { $_->{at} le $rewound_to } @wal;
        $lsn = @wal ? hex substr $wal[-1]{at}, 0, 16 : 0;
    },
    late_deletion => sub { same('a late deletion', run_script('delete_members', [$STREAM], 'c', '0'), '0') },
    ack => sub {
        my ($new, $done, @users, @ids) = (0, 0);
        for (1 .. 1 + int rand 6)
        {
            my $id = one_of((map { $_->{id} // () } @wal), 'ffffffff-0000-8000-8000-000000000000');
            my $user = one_of(@USERS);
            push @users, $user, 1;
            push @ids, $id;
            my $wait = $model{wait}{$id} or next;
            if (delete $wait->{$user})
            {
                $new++;
                $model{open}{$id} or keys %$wait or $done++;
                $model{was}{$id}{$user} = 1;
            }
            elsif ($model{open}{$id} && !$model{was}{$id}{$user}) { $model{early}{$id}{$user} = 1 }
            delete $model{wait}{$id} if !$model{open}{$id} && !keys %$wait;
        }
        same('ack', run_script('ack', [$STREAM], 'c', 'me', 60000, @users / 2, @users, @ids), [ $new, $done ]);
    },
    report => sub {
        my (@reports, @not_pending, @lost, @delivered);
        my ($newest) = map { $_->[0] } @{ $store->execute('XREVRANGE', $STREAM, '+', '-', 'COUNT', 1) };
        for my $i (0 .. int rand 4)
        {
            my ($id, $user) = (one_of((map { $_->{id} // () } @wal), 'ffffffff-0000-8000-8000-000000000000'), one_of(@USERS));
            my @pending = map { my $of = $_; map { [ $of, $_ ] } sort keys %{ $model{wait}{$of} } } sort keys %{ $model{wait} };
            ($id, $user) = @{ one_of(@pending) } if @pending && rand() < 0.7;
            # A deferred notification whose stream entry was trimmed, exists, or was lost.
            my $entry = one_of('', '1-1', $newest ? ($newest, "${newest}999") : ());
            push @reports, ($entry ? 'Q' : 'S') . $entry, $user, $id;
            my $wait = $model{wait}{$id};
            if ($model{open}{$id} && $wait && !$model{was}{$id}{$user})
            {
                if (delete $model{early}{$id}{$user}) { $model{was}{$id}{$user} = 1 }
                else                                  { $wait->{$user} = 1 }
            }
            push @{ $entry =~ /999$/ ? \@lost : \@not_pending }, $i unless $wait && $wait->{$user};
            my ($record) = grep { ($_->{id} // '') eq $id } @wal;
            push @delivered, [ "$id:$user", $record->{timeout} ] if $record && $entry eq '' && $wait && $wait->{$user};
        }
        my @reply = @{ run_script('report', [$STREAM], 'c', $TIMEOUT, 1000, 60000, 60000, @reports) };
        same('the ack timeouts', [ map { timeout_of($_->[0]) } @delivered ], [ map { $_->[1] } @delivered ]);
        my @states = map { [ @reply[ 2 * $_, 2 * $_ + 1 ] ] } 0 .. $#reply / 2;
        same('report', [ map { my $is_lost = $_; join ' ', map { $_->[0] } grep { ($_->[1] == 4 ? 1 : 0) == $is_lost } @states } 0, 1 ], [ "@not_pending", "@lost" ]);
    },
    drop => sub {
        my %ids = map { $_ => 1 } map { one_of((map { $_->{id} // () } @wal), 'ffffffff-0000-8000-8000-000000000000') } 0 .. int rand 3;
        my @ids = sort keys %ids;
        my @wanted = map { my $wait = delete $model{wait}{$_}; $wait ? scalar keys %$wait : $store->execute('EXISTS', "c:trace:$_") - 2 } @ids;
        same('drop', run_script('drop', [$STREAM], 'c', 60000, @ids), [ 0, @wanted ]);
    },
    hello => \&hello,
    flush => sub { $store->execute('FLUSHALL'); empty_model(); @wal = (); ($lsn) = (0); hello() },
    unstream => sub {
        # If only the stream was removed, batches are rejected until hello detects the removal.
        $store->execute('DEL', $STREAM);
        $model{stream} = [];
        $model{gone} = $model{has_lost} = 1;
    },
);
my @names = (('ingest') x 16, ('transaction') x 12, ('ack') x 8, ('report') x 4, ('acquire') x 4, ('drop') x 2, 'reset', 'hello', 'late_deletion');

sub compare_all
{
    my @ids = map { $_->{id} } $store->entries($STREAM);
    same('the stream', \@ids, $model{stream});
    for my $target (@TARGETS)
    {
        same("members of $target", [ sort @{ $store->execute('SMEMBERS', "c:members:TEAM:$target") } ],
            [ sort keys %{ $model{members}{$target} // {} } ]);
    }
    for my $user (@USERS)
    {
        my @list = sort(pending_list($user));
        same("pending list of $user", \@list, [ sort grep { $model{wait}{$_}{$user} } keys %{ $model{wait} } ]);
    }
    same('the pending notifications', [ sort @{ $store->execute('HKEYS', 'c:pending') } ], [ sort keys %{ $model{wait} } ]);
    same('users that expire before they acknowledge', [ grep { $store->execute('PTTL', "c:ack:$_") >= 0 } sort keys %{ $model{wait} } ], []);
    return;
}

($lsn, $ids) = (0, 1);
empty_model();
hello();
my %done;
# Rare replies may need more steps.
while ($good && ($step++ < $STEPS || (missing_replies() && $step < 20 * $STEPS)))
{
    my $name = rand() < 0.003 ? one_of(qw(flush unstream)) : one_of(@names);
    $steps{$name}->();
    $done{$name}++;
    hello() if $model{gone} && rand() < 0.3;
    compare_all() if $good && !$model{gone} && $step % 10 == 0;
}
note join ', ', map { "$_ $done{$_}" } sort keys %done;
note join ', ', map { "$_ $replies{$_}" } sort grep { /^[a-z]+$/i } keys %replies;
ok($good, "$step steps match the model");
is_deeply([missing_replies()], [], 'each possible reply occurs');

sub route_at { return "\0" x 7 . "\1" . pack('H*', position(@_)) . "\1" x 40 }

# The position of other shards in a batch is stored with the first notification that the batch adds.
$store->execute('FLUSHALL');
my ($epoch) = @{ run_script('hello', [$STREAM], 'c', 'e' x 16, '', '0-0', 1, 1) };
run_script('acquire', [$PROGRESS], 'three', 'ours', 1, '', 16, 'db');
my @notifications = map { [ 'N', position($_, 1), sprintf('%08x-0000-8000-8000-000000000000', $_), route_at($_, 1), '{}' ] } 1 .. 4;
run_script('ingest', [ $STREAM, $PROGRESS ], 'c', $epoch, 'three', '', '', @$_) for [ '', $PAIRS, '', @{ $notifications[0] } ], [ '1:2.3', $PAIRS, '', map { @$_ } @notifications[ 0 .. 2 ] ], [ '0:9.9', $PAIRS ];
is_deeply([ map { $_->{after} } $store->entries($STREAM) ], [ undef, '1:2.3', undef ], 'the first new entry records the state of the other shards');

# With several shards, acquire returns the newest notification that has a commit, hello returns the shard's position,
# and start_position returns the start entry.
my @several = ('ours', 1, 1, 16, 'db');
$store->execute('XADD', $STREAM, '*', @$_, 'data', '{}') for [ id => 'a copy', route => "\0" x 7 . "\1" x 57, retry_users => '' ], [ id => 'of an API call', route => "\0" x 64 ];
is(run_script('acquire', [$PROGRESS], 'four', @several)->[3], position(3, 1), 'acquire returns the newest notification');
is(run_script('hello', ['d:{0}:stream'], 'd:{0}', 'f' x 16, '', '0-0', 2, 1)->[4], '', 'the position of a shard without a slot is unknown');
$store->execute('HSET', 'd:{0}:meta', 'progress', $PROGRESS);
is(run_script('hello', ['d:{0}:stream'], 'd:{0}', 'f' x 16, '', '0-0', 2, 1)->[4], position(3, 1), 'hello returns the position');
my @entries = $store->entries($STREAM);
sub begin_at { return run_script('start_position', [$STREAM], position(@_), $entries[-1]{entry}) }
is(begin_at(2, 5), $entries[1]{entry}, 'start_position returns the newest entry up to the position');
is(begin_at(0, 1), '', 'start_position returns nothing if the entry was trimmed');

# After a failover that has undone transactions, the newest notifications are beyond the progress.
$store->execute('FLUSHALL');
($epoch) = @{ run_script('hello', [$STREAM], 'c', 'e' x 16, '', '0-0', 4, 1) };
run_script('acquire', [$PROGRESS], 'five', @several);
sub add_at { return $store->execute('XADD', $STREAM, '*', id => "at @_", route => route_at(@_), data => '{}') }
add_at($_, 1) for 1, 2, 5;
my $undone = add_at(6, 1);
run_script('rewind', [$PROGRESS], 'c', 'five', 2, position(3, 0), 'f' x 16, '', '0' x 15 . '3', position(4, 0));
is_deeply([ @{ run_script('acquire', [$PROGRESS], 'six', 'ours', 2, 1, 16, 'db') }[ 3, 5 ] ], [ position(2, 1), position(4, 0) ],
    'acquire returns the newest notification that was not undone, and the position up to which the frames are stored');
is(run_script('start_position', [$STREAM], position(2, 1), $undone), $undone, 'a relay does not start before notifications that were undone');
my $next = add_at(4, 1);
add_at(7, 1);
is(run_script('start_position', [$STREAM], position(4, 1), '+'), $next, 'it starts between later notifications');
is(run_script('start_position', [$STREAM], position(3, 1), '+'), $undone, 'and not before them');

done_testing();
