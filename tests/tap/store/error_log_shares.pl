# Tests that a table owner with many dead letters fills only its own share of the error log: the oldest entries of the
# owner with the most are trimmed, counted and named, and the dead letters of a neighbour remain.
use strict;
use warnings;

use Clairon::Test qw(amount script_text wait_until);
use Clairon::Test::Neighbour;
use JSON ();
use List::Util qw(max sum);
use Test::More;

my $SEED = $ENV{CLAIRON_SCRIPTS_SEED} // int rand 1_000_000;
srand $SEED;
note "seed $SEED";

# ---- The shares, by the scripts alone: random entries, in a log of $LIMIT bytes.
my ($LIMIT, $STEPS, $FULL) = (6000, amount(200, 3000), 100_000);    # STORE_ERRORS_MAX
my $bare = Clairon::Test::store();
my ($STREAM, $PROGRESS) = ('c:stream', 'c:progress:s');
# With this limit, and at least 10 bytes an entry.
sub limited { my ($name, $bytes) = @_; return script_text($name) =~ s/\b268435456\b/$bytes/r =~ s/\b100000\b/@{[ $bytes \/ 10 ]}/r }
my %script = map { $_ => limited($_, 1e9) } qw(hello acquire ingest due redrive error_entry count_pending);
my ($epoch) = @{ run_script('hello', [$STREAM], 'c', 'e' x 16, '', '0-0', 1, 1) };
run_script('acquire', [$PROGRESS], 'one', 'ours', 1, '', 16, 'db');
$bare->execute('SADD', 'c:presence:r', 'a' .. 'd');
my ($number, @pending) = (0);
sub run_script { my ($name, $keys, @args) = @_; return $bare->execute_bytes('EVAL', $script{$name}, scalar @$keys, @$keys, @args) }
sub one_of { return $_[ rand @_ ] }
sub id_of { return sprintf '%08x-0000-8000-8000-000000000000', $_[0] }

# The header of a notification with a retry limit of 0, so that it is exhausted when it is due.
sub route
{
    my ($owner) = @_;
    my $route = "\0" x 104;
    substr $route, 7,  1, "\3";
    substr $route, 88, 4, pack 'N', $owner;
    return $route;
}

sub ingest { return run_script('ingest', [ $STREAM, $PROGRESS ], 'c', $epoch, 'one', '', '', '', 1000, '', @_) }
sub position { return sprintf '%032x', $number }
sub add_rejected { my ($owner) = @_; return ('R', sprintf('%032x', ++$number), id_of($number), route($owner), 'USER', 1, 'absent') }

my @faults;
sub fault { my ($step, @words) = @_; push @faults, "step $step: @words"; return }

# Returns the state of the log: its entries, and those of each owner and their bytes by the index.
my ($replaced, %moved) = (0);
sub log_state
{
    my @rows  = $bare->entries('c:errors');
    my %owner = map { length $_->{route} ? ($_->{entry} => unpack 'N', substr $_->{route}, 88, 4) : () } @rows;
    my %state = (entries => [ map { $_->{entry} } @rows ], of => {}, bytes => {});
    for my $key (@{ $bare->execute('KEYS', 'c:error_index:*') })
    {
        my ($owner) = $key =~ /(\d+)$/;
        for my $entry ($bare->entries($key))
        {
            fault($number, "entry $entry->{entry} of $owner{ $entry->{entry} } is charged to $owner") if ($owner{ $entry->{entry} } // $owner) != $owner;
            push @{ $state{of}{$owner} }, $entry->{entry};
            $state{bytes}{$owner} += $entry->{bytes};
        }
    }
    for my $key (@{ $bare->execute('KEYS', 'c:error_parts:*') })
    {
        my ($owner, $bytes) = @{ $bare->execute('HMGET', $key, 'owner', 'bytes') };
        $state{bytes}{$owner} += $bytes // 0;
        $replaced++ if $moved{$key} && !$bytes;
        $moved{$key} = $bytes;
    }
    return \%state;
}

# Returns the numbers of trimmed entries of each call. $longest is the CPU time of the longest call in ms.
my ($longest, $confirmed) = (0, '');
sub cpu_ms { return 1000 * Clairon::Test::Neighbour::cpu_times($bare->pid)->{run} }
sub due
{
    my (@trimmed, $reply);
    $bare->execute('ZADD', 'c:relays', 4e12, 'r');    # the users are present
    do
    {
        my $before = cpu_ms();
        push @trimmed, ($reply = run_script('due', [$STREAM], 'c', 1000, 3_600_000, 100, 1000))->[7];
        $longest = max($longest, cpu_ms() - $before);
    } while $reply->[4];
    return @trimmed;
}

# Trims the log, and compares with what may be trimmed.
sub check_trim
{
    my ($step) = @_;
    due();
    my $before = log_state();
    local $script{due} = limited('due', $LIMIT);
    my $trimmed = sum(due());
    my ($after, $sum, $all, %lost) = (log_state(), 0, 0);
    $all += $_ for values %{ $before->{bytes} };
    for my $owner (keys %{ $before->{of} })
    {
        my %kept = map { $_ => 1 } @{ $after->{of}{$owner} // [] };
        my @lost = grep { !$kept{$_} } @{ $before->{of}{$owner} };
        $lost{$owner} = @lost if @lost;
        $sum += @lost;
        fault($step, 'other than the oldest entries are trimmed') if "@lost" ne "@{ $before->{of}{$owner} }[ 0 .. $#lost ]";
        fault($step, "$owner has $before->{bytes}{$owner} bytes and loses entries") if @lost && $before->{bytes}{$owner} <= $LIMIT / keys %{ $before->{of} };
    }
    fault($step, "$trimmed entries are counted, $sum are trimmed") if $trimmed != $sum;
    fault($step, 'a log that is not full is trimmed') if $sum && $all <= $LIMIT;
    my %stored = @{ $bare->execute('ZRANGE', 'c:error_owners', 0, -1, 'WITHSCORES') };
    my $total = delete $stored{all} // 0;
    fault($step, "the bytes of the owners differ: @{[ %stored ]}, @{[ %{ $after->{bytes} } ]}") if join(' ', map { "$_ $stored{$_}" } sort keys %stored) ne join ' ', map { "$_ $after->{bytes}{$_}" } sort keys %{ $after->{bytes} };
    fault($step, "the log has $total bytes") if $total > $LIMIT;
    fault($step, 'the index differs from the log') if "@{[ sort map { @$_ } values %{ $after->{of} } ]}" ne "@{[ sort @{ $after->{entries} } ]}";
    my $pending = run_script('count_pending', [$STREAM], 'c', 'one', $confirmed);
    my %reported = $pending->[3] eq $confirmed ? () : split / /, $pending->[4] =~ s/\be//gr;
    $confirmed = $pending->[3];
    fault($step, "@{[ %reported ]} is reported") if join(' ', map { "$_ $reported{$_}" } sort keys %reported) ne join ' ', map { "$_ $lost{$_}" } sort keys %lost;
    return $sum;
}

my ($lost, %steps) = (0);
%steps = (
    reject => sub { ingest(add_rejected(one_of(0, 7, 7, 7, 8))) },
    add    => sub {
        my $id = id_of(++$number);
        my $data = "$id " . 'x' x one_of(10, 100, 1000, 1000);
        my @users = ('a' .. 'd')[ 0 .. rand 4 ];
        ingest('A', position(), $id, route(one_of(0, 7, 7, 8, 9)), $data, 'USER', scalar @users, @users);
        push @pending, [ $id, $_ ] for @users;
    },
    exhaust => sub { my $pair = splice @pending, rand @pending, 1 if @pending; $bare->execute('ZADD', 'c:due', 1, "$pair->[0]:$pair->[1]") if $pair },
    expire  => sub {
        my ($id) = @{ one_of(@pending) // return };
        $bare->execute('ZADD', 'c:due', 1, "$id:");
        @pending = grep { $_->[0] ne $id } @pending;
    },
    drop => sub { my $entry = one_of(@{ log_state()->{entries} }) // return; run_script('error_entry', [$STREAM], 'c', $entry, 'drop') },
    redrive => sub {
        my ($row) = map { @{ run_script('error_entry', [$STREAM], 'c', $_, 'read') } } one_of(@{ log_state()->{entries} }) // return;
        my %field = @{ $row->[1] };
        return if $field{reason} eq 'rejected';
        fault('redrive', "the entry has the JSON '$field{data}'") if substr($field{data}, 0, 36) ne $field{id};
        run_script('redrive', [$STREAM], 'c', $row->[0], @field{qw(id route data)}, 0, 3_600_000);
        push @pending, [ $field{id}, $_ ] for @{ JSON::decode_json($field{users}) };
    });
# The entry with the JSON is removed before the others, and the next entry holds it again.
my $parted = id_of(++$number);
ingest('A', position(), $parted, route(7), "$parted " . 'x' x 1000, 'USER', 3, 'a' .. 'c');
for my $user ('a' .. 'c')
{
    run_script('error_entry', [$STREAM], 'c', log_state()->{entries}[0], 'drop') if $user eq 'c';
    $bare->execute('ZADD', 'c:due', 1, "$parted:$user");
    $lost += check_trim($user);
}
my %order = (add => 4, exhaust => 6, reject => 3, expire => 1, drop => 2, redrive => 1);
my @choices = map { ($_) x $order{$_} } sort keys %order;
for my $step (1 .. $STEPS)
{
    $steps{ one_of(@choices) }->() for 1 .. 4;
    $lost += check_trim($step);
    last if @faults;
}
is_deeply(\@faults, [], 'the oldest entries of the owner with the most are trimmed, and counted');
cmp_ok($lost, '>', $STEPS / 10, "$lost entries are trimmed");
cmp_ok($replaced, '>', 0, "$replaced times, the JSON of a removed entry is replaced by that of a newer entry");
$bare->execute('HSET', 'c:denied', 'e7', 1);
is_deeply([ map { run_script('count_pending', [$STREAM], 'c', $_, $confirmed)->[4] } qw(two one one) ], [ '', 'e7 1', 'e7 1' ], 'trimmed entries are reported to the feed, until it confirms');
$confirmed = run_script('count_pending', [$STREAM], 'c', 'one', '')->[3];
is(run_script('count_pending', [$STREAM], 'c', 'one', $confirmed)->[4], '', 'and not again');
for my $entry (@{ log_state()->{entries} }) { run_script('error_entry', [$STREAM], 'c', $entry, 'drop') }
is_deeply([ map { @{ $bare->execute('KEYS', "c:error_$_*") } } qw(owners index parts) ], [], 'nothing else of dropped entries remains');

# ---- A full log of 1000 owners.
%script = map { $_ => script_text($_) } keys %script;
sub fill { my ($count, $owner) = @_; for (1 .. $count / 500) { ingest(map { add_rejected($owner->($_)) } 1 .. 500) } return }
fill($FULL, sub { 1 + $_[0] % 1000 });
fill(1500, sub { 5000 });
my @trimmed = due();
cmp_ok(sum(@trimmed), '>=', 1400, 'entries of an owner are trimmed');
cmp_ok(max(@trimmed), '<=', 500, 'up to 500 in a call');
cmp_ok($longest, '<', 100, "the longest call takes $longest ms of CPU time with 1000 owners");
$bare->stop;

# ---- A neighbour.
my $ROWS      = 300;
my $pg        = Clairon::Test::postgresql('main');
my $store     = Clairon::Test::store();
my $relay     = Clairon::Test::relay($pg, $store);
my $neighbour = Clairon::Test::Neighbour->new($pg, $relay, store => $store);
sub sql { return $pg->safe_psql('postgres', $_[0]) }
sub table_of
{
    my ($owner) = @_;
    $neighbour->run_as($owner, "CREATE TABLE $owner.t (id serial PRIMARY KEY, u text);
        SELECT clairon.watch('$owner.t', 'USER', 'u', ack_required => true, ttl => '1 s')");
    return;
}
sub rows { my ($owner, $count) = @_; return $neighbour->run_as($owner, "INSERT INTO $owner.t (u) SELECT 'absent' FROM generate_series(1, $count)") }

table_of($_) for qw(alice mallory);
$neighbour->watch_store;
rows('mallory', $ROWS);
wait_until('rows expire', sub { $store->error_count == $ROWS });
my $honest = $neighbour->store_longest;
$relay->run('errors', 'drop', '--all');
rows('alice', 3);
wait_until("alice's rows expire", sub { $store->error_count == 3 });
my ($key)  = grep { $store->execute('XLEN', $_) } $store->keys('errors');
my $prefix = $key =~ s/:errors$//r;
my @ids    = sort map { $_->{id} } $store->entries($key);

# The script of the feed fills the error log with entries of mallory, after those of alice.
$relay->stop;
(my $progress, $epoch) = @{ $store->execute('HMGET', "$prefix:meta", 'progress', 'epoch') };
my $token    = $store->execute('HGET', $progress, 'owner');
my $position = $store->execute('HGET', $progress, "position:$token");
my $owner    = sql(q{SELECT 'mallory'::regrole::oid});
for my $part (1 .. $FULL / 500)
{
    my @records = map { ('R', sprintf('%s%08d', $position, 500 * $part + $_), id_of($_), route($owner), 'USER', 1, 'absent') } 1 .. 500;
    $store->execute_bytes('EVAL', $script{ingest}, 2, "$prefix:stream", $progress, $prefix, $epoch, $token, '', '', '', 1000, '', @records);
}
$store->execute('HSET', $progress, "position:$token", $position);
$relay->start;
$relay->wait_ready;
$neighbour->watch_store;

rows('mallory', $ROWS);
wait_until('the rows of mallory expire', sub { ($relay->metric('clairon_errors_total{reason="expired"}') // 0) >= $ROWS });
wait_until('the log is trimmed', sub { $store->execute('XLEN', $key) <= $FULL + 100 });
is_deeply([ sort map { $_->{id} } grep { $_->{id} !~ /-0000-8000-8000-0{12}$/ } map { { @{ $_->[1] } } } @{ $store->execute('XRANGE', $key, '-', '+', 'COUNT', 50) } ],
    \@ids, 'the dead letters of a neighbour remain in the log, which another owner fills');
($longest, my $words, my $waited) = $neighbour->store_longest;
cmp_ok($longest - $waited, '<', $honest + 100, "the longest command of the store takes $longest ms ($honest ms before): $words");
wait_until('a metric counts the trimmed entries', sub { $relay->metric('clairon_errors_trimmed_total') > $ROWS - 20 });
$relay->wait_for_log(qr/error log is full/);
$relay->wait_for_log(qr/trimmed the error log.*owners="mallory"/);
is(sql(q{SELECT string_agg(format('%s %s', d ->> 'owner', d ->> 'account'), ',') FROM clairon.status, jsonb_array_elements(denied) AS d}), 'mallory errors', 'clairon.status names the owner');
like(sql(q{SELECT concat(detail, hint) FROM clairon.doctor() WHERE check_name = 'account of mallory'}), qr/dead letters were trimmed.*clairon errors/, 'doctor names the owner');

$store->execute('HSET', "$prefix:denied", 'e0', 5);
wait_until('entries without a limited owner are reported', sub { sql(q{SELECT denied @> '[{"owner": "clairon_app", "account": "errors", "changes": 5}]' FROM clairon.status}) eq 't' });
done_testing();
