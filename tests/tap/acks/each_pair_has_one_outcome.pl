# Tests that each pair of a notification and a member of its audience has exactly one outcome: acked, pending, expired,
# exhausted or dropped. No user receives another user's notifications.
#
# A seeded run of notifications, connections, acks, nacks, disconnects, membership changes, redrives, drops, killed relays
# and stores is compared with a simple model. CLAIRON_PAIRS_SEED=n repeats a run; CLAIRON_PAIRS_STEPS=n makes it longer.
use strict;
use warnings;

use Clairon::Test qw(wait_until amount);
use JSON ();
use Test::More;

my $STEPS = $ENV{CLAIRON_PAIRS_STEPS} // amount(60, 600);
my $SEED  = $ENV{CLAIRON_PAIRS_SEED} // int(rand(1_000_000));
srand $SEED;
note "seed $SEED, $STEPS steps";

my $pg = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store(fsync => 'always');    # acknowledged writes survive a kill
my %quick = ('delivery.ack_timeout' => '150ms', 'delivery.backoff_base' => '20ms', 'delivery.backoff_cap' => '200ms');
my @relays = map { Clairon::Test::relay($pg, $store, conf => {%quick}) } 1 .. 2;

my @USERS = map { "u$_" } 1 .. 6;
my @TEAMS = qw(t1 t2);
my %CLUB  = map { $_ => 1 } qw(u1 u2);    # the users' tokens name their group

# The model: notifications, team members over time, actions of each client.
my (%message, %team, %was_of, @clients, %acked_by, %lost_ack);
my $step = 0;

sub any_of { return $_[ rand @_ ] }
sub some_of { my @some = grep { rand() < 0.4 } @_; return @some ? @some : any_of(@_) }

sub change_member
{
    my ($team, $user) = (any_of(@TEAMS), any_of(@USERS));
    if (delete $team{$team}{$user})
    {
        $pg->safe_psql('postgres', "DELETE FROM clairon.member WHERE target = '$team' AND user_id = '$user'");
        return;
    }
    $team{$team}{$user} = $was_of{$team}{$user} = 1;
    $pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('TEAM', '$team', '$user')");
    return;
}

sub send_message
{
    my $kind  = any_of(qw(USER USER TEAM TEAM ALL CLUB));
    my $team  = any_of(@TEAMS);
    my @names = $kind eq 'USER' ? some_of(@USERS) : $kind eq 'TEAM' ? $team : $kind eq 'CLUB' ? 'c1' : ();
    my $limit = int rand 4;
    my $ttl   = any_of(undef, '1 hour', '400 milliseconds');
    my @known = $kind eq 'USER' ? @names : $kind eq 'TEAM' ? keys %{ $team{$team} } : ();
    my $id = $pg->safe_psql('postgres', sprintf
        q{SELECT clairon.notify('%s', '{%s}', '{}', ack_required => true, retry_limit => %d, backoff => '%s'%s)},
        $kind, join(',', @names), $limit, any_of(qw(EXPONENTIAL LINEAR FIXED)), $ttl ? ", ttl => '$ttl'" : '');
    # Users who may receive the notification: current and future members of the team.
    $message{$id} = { kind => $kind, team => $team, names => \@names, limit => $limit, ttl => $ttl,
        known => { map { $_ => 1 } @known }, open => !@known };
    return;
}

sub connect_client
{
    my $user  = any_of(@USERS);
    my ($old) = grep { $_->{user} eq $user && $_->{gone} } reverse @clients;
    my $relay = any_of(grep { $_->is_alive } @relays) // return;
    my $socket = eval { $relay->client($user, (rand() < 0.5 ? (win => 1 + int rand 4) : ()),
        ($old && rand() < 0.5 ? (pos => $old->{socket}->pos) : ()),
        ($CLUB{$user} ? (groups => { CLUB => ['c1'] }) : ())) } // return;
    push @clients, { user => $user, socket => $socket, relay => $relay, at => 0, care => rand() };
    return;
}

sub alive { return grep { !$_->{gone} && !$_->{socket}{closed} } @clients }

# Some clients acknowledge nearly all notifications, some nearly none.
sub respond
{
    my ($client) = @_;
    my @notifications = $client->{socket}->notifications;
    for my $notification (@notifications[ $client->{at} .. $#notifications ])
    {
        my ($id, $random) = ($notification->{metadata}{id}, rand());
        if ($random < $client->{care})
        {
            eval { $client->{socket}->ack($id); 1 } or next;
            push @{ $acked_by{$id}{ $client->{user} } }, $client;
        }
        elsif ($random > 0.9) { eval { $client->{socket}->send({ t => 'nack', ids => [$id], delay => int rand 300 }) } }
    }
    $client->{at} = @notifications;
    return;
}

sub drop_client
{
    my $client = any_of(alive()) // return;
    # The relay may read a client's last frame late after an abort, but not after a clean close.
    $client->{gone} = 1;
    $client->{socket}->close;
    return;
}

sub end_relay
{
    my ($how) = @_;
    my $relay = any_of(@relays);
    $relay->$how;
    $_->{killed} = $_->{gone} = 1 for grep { $_->{relay} == $relay && !$_->{gone} } @clients;
    $relay->start;
    $relay->wait_ready;
    return;
}

sub kill_store
{
    $store->kill9;
    $store->start;
    wait_until('the relays are ready again', sub { !grep { ($_->get('/readyz'))[0] != 200 } @relays });
    return;
}

sub redrive
{
    $relays[0]->run('errors', 'redrive', '--limit', 1 + int rand 3);
    return;
}

sub drop
{
    my @newest = (reverse sort keys %message)[ 0 .. 4 ];    # the others have mostly ended
    my $id = any_of(grep { defined } @newest) // return;
    $relays[0]->run('drop', $id);
    $message{$id}{is_dropped} = 1;
    return;
}

change_member() for 1 .. 6;
connect_client() for 1 .. 3;
for (1 .. $STEPS)
{
    my $random = rand();
    if    ($random < 0.45) { send_message() }
    elsif ($random < 0.60) { connect_client() }
    elsif ($random < 0.72) { drop_client() }
    elsif ($random < 0.80) { change_member() }
    elsif ($random < 0.82) { end_relay('kill9') }
    elsif ($random < 0.83) { end_relay('stop') }
    elsif ($random < 0.85) { kill_store() }
    elsif ($random < 0.90) { redrive() }
    elsif ($random < 0.96) { drop() }
    Clairon::Test::Client::run_for(0.02);
    respond($_) for alive();
}
note sprintf '%d notifications, %d connections', scalar keys %message, scalar @clients;

# At the end, connected clients continue to respond until no frame is in transit.
my $all = sub { keys(%message) == grep { !defined $_->{retry_users} } $store->entries };
wait_until('all notifications are stored', $all);
wait_until('no retry is due', sub {
    Clairon::Test::Client::run_for(0.05);
    respond($_) for alive();
    my ($s, $us) = @{ $store->execute('TIME') };
    my %due = map { @{ $store->execute('ZRANGE', $_, 0, -1, 'WITHSCORES') } } $store->keys('due');
    my %present = map { $_->{user} => 1 } alive();    # pairs of absent users stay pending
    return !grep { /:(.*)$/ && ($1 ne '' ? $present{$1} : $due{$_} < $s * 1000 + 1000) } keys %due;
});

# Acks of connected users that are not in the store yet.
sub in_transit
{
    my @alive = alive();
    return grep {
        my ($id, $acked) = ($_, $acked_by{$_});
        grep { my $client = $_; $acked->{ $client->{user} } && ($store->execute('HGET', $store->of($id, "ack:$id"), $client->{user}) // '') eq '0' } @alive
    } keys %acked_by;
}
wait_until('the acks are stored', sub { Clairon::Test::Client::run_for(0.3); return !in_transit() });
is_deeply([ map { $_->metric('clairon_store_errors_total') } @relays ], [ 0, 0 ], 'the store returns no errors');
# A relay stores its delivery reports before the acks that it receives later.
for my $i (0, 1)
{
    my $last = $relays[$i]->client("last$i");
    my $id   = $pg->safe_psql('postgres', "SELECT clairon.notify('USER', '{last$i}', '{}', ack_required => true)");
    $last->run_until('a last notification arrives', sub { $last->notifications });
    $last->ack($id);
    wait_until('its ack is stored', sub { !$store->execute('HEXISTS', $store->of($id, 'pending'), $id) && !$store->execute('EXISTS', $store->key("pending_list:last$i")) });
}
$_->kill9 for @relays;    # stops all state changes

sub has_access
{
    my ($message, $user) = @_;
    my %of = (USER => $message->{known}, TEAM => $was_of{ $message->{team} }, CLUB => \%CLUB);
    return $message->{kind} eq 'ALL' || $of{ $message->{kind} }{$user};
}

# Each client received only its user's notifications.
my (%received, @foreign, @beyond);
for my $client (@clients)
{
    for my $notification ($client->{socket}->notifications)
    {
        my $user    = $client->{user};
        my $message = $message{ $notification->{metadata}{id} };
        $received{ $notification->{metadata}{id} }{$user} ||= !$client->{killed};
        push @foreign, "$notification->{metadata}{id} $user" unless has_access($message, $user);
        push @beyond, $notification->{metadata}{id} if $notification->{routing}{retry}{attempts} > $message->{limit};
    }
}
is_deeply(\@foreign, [], 'no user receives another user\'s notifications');
is_deeply(\@beyond, [], 'no notification is delivered more often than its limit');

# The state of each pair in the store.
my %errors;
for my $entry ($store->errors)
{
    push @{ $errors{ $entry->{id} }{$_} }, $entry for @{ JSON::decode_json($entry->{users}) };
}
my (@wrong, %seen);
for my $id (sort keys %message)
{
    my $message = $message{$id};
    my %state = @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) };
    my %acked = map { /^acked \d+ \d+ \S+ (.*)$/ ? ($1 => 1) : () } @{ $store->execute('LRANGE', $store->of($id, "trace:$id"), 0, -1) };
    my %dropped;
    $dropped{$_}++ for map { /^dropped \d+ \d+ - (.+)$/ } @{ $store->execute('LRANGE', $store->of($id, "trace:$id"), 0, -1) };
    my %done = @{ $store->execute('HGETALL', $store->of($id, "acked:$id")) };
    $acked{$_} = 1 for keys %done, grep { $state{$_} > 0 } keys %state;
    my %pairs = map { $_ => 1 } keys %state, keys %acked, keys %dropped, keys %{ $errors{$id} // {} }, keys %{ $message->{known} };
    for my $user (sort keys %pairs)
    {
        my @errors = @{ $errors{$id}{$user} // [] };
        my @states = (($acked{$user} ? 'acked' : ()), (($state{$user} // 1) eq '0' ? 'pending' : ()), map({ $_->{reason} } @errors), ('dropped') x ($dropped{$user} // 0));
        my $is = join '+', @states;
        $seen{$is}++;
        my $acks = $acked_by{$id}{$user} // [];
        push @wrong, "$id $user is " . ($is || 'nothing') if @states != 1;
        push @wrong, "$id $user: pending, but not in the audience"
          unless $message->{known}{$user} || ($message->{open} && has_access($message, $user));
        push @wrong, "$id $user: dropped without a drop" if $dropped{$user} && !$message->{is_dropped};
        push @wrong, "$id $user: acked without an ack" if $acked{$user} && !@$acks;
        push @wrong, "$id $user: acked, but pending" if $is eq 'pending' && grep { !$_->{gone} } @$acks;
        push @wrong, "$id $user: expired before its expiration" if $is eq 'expired' && !$message->{ttl} && !$message->{open};
        push @wrong, "$id $user: exhausted after $errors[0]{attempts} of $message->{limit}"
          if $is eq 'exhausted' && $errors[0]{attempts} != $message->{limit};
    }
    next unless $message->{open} && !$message->{is_dropped};    # a report after the drop creates no pair
    for my $user (grep { $received{$id}{$_} && !$pairs{$_} } keys %{ $received{$id} })
    {
        push @wrong, "$id $user: delivered, but not pending";
    }
}
is_deeply(\@wrong, [], 'each pair is in one valid state');
note join ', ', map { "$seen{$_} $_" } sort keys %seen;
cmp_ok(scalar(keys %seen), '>=', 2, 'the pairs are in at least two different states');

# The store's indexes are consistent.
my %pending = map { @{ $store->execute('HGETALL', $_) } } $store->keys('pending');
is($store->pending, scalar(keys %pending), 'each pending notification has one pending stream entry');
my @inconsistent;
for my $id (keys %pending)
{
    my ($entry, $left) = split / /, $pending{$id};
    my %state = @{ $store->execute('HGETALL', $store->of($id, "ack:$id")) };
    my @waiting = grep { $state{$_} eq '0' } keys %state;
    push @inconsistent, "$id: $left pending, " . @waiting . ' pending' if $left != @waiting;
    for my $user (@waiting)
    {
        push @inconsistent, "$id is not in the pending list of $user" unless defined $store->execute('ZSCORE', $store->of($id, "pending_list:$user"), $id);
    }
    push @inconsistent, "$id: entry $entry does not exist" unless @{ $store->execute('XRANGE', $store->of($id, 'stream'), $entry, $entry) };
}
for my $user (@USERS)
{
    for my $id (map { @{ $store->execute('ZRANGE', $_, 0, -1) } } $store->keys("pending_list:$user"))
    {
        push @inconsistent, "the pending list of $user has $id" unless ($store->execute('HGET', $store->of($id, "ack:$id"), $user) // '') eq '0';
    }
}
is_deeply(\@inconsistent, [], 'the indexes of the store are consistent');

done_testing();
