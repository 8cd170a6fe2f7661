# Tests that each user receives exactly the right notifications for all audiences, while memberships change on live
# connections.
#
# In a seeded run, notifications are sent to users, to teams of clairon.member, to clubs of tokens, to both, and to all;
# connections have groups, topics and cursors or lack them; memberships change; and users acknowledge. After each round,
# missing and unexpected notifications of every connection are compared with a simple model. CLAIRON_AUDIENCES_SEED=n
# repeats a run; CLAIRON_AUDIENCES_ROUNDS=n makes it longer.
use strict;
use warnings;

use Clairon::Test qw(token amount);
use Encode ();
use JSON ();
use Mojo::UserAgent;
use Test::More;

my $ROUNDS = $ENV{CLAIRON_AUDIENCES_ROUNDS} // amount(8, 60);
my $SEED   = $ENV{CLAIRON_AUDIENCES_SEED}   // int(rand(1_000_000));
srand $SEED;
note "seed $SEED, $ROUNDS rounds";

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
# Retries are disabled and the in-flight windows are large, because this test covers only the recipients.
my %conf   = ('delivery.ack_timeout' => '1h', 'delivery.window' => 10_000);
my @relays = map { Clairon::Test::relay($pg, $store, conf => {%conf}) } 1 .. 2;
my $json   = JSON->new->utf8;
my $agent  = Mojo::UserAgent->new;

my @USERS   = ('u1', 'u2', 'u3', 'U1', 'TEAM:t1', "\xc3\xbc");    # bytes, like all strings in this file
my @TARGETS = ('t1', 't2', 't1:x', 'u1', 'ALL');
my @KINDS   = qw(TEAM CLUB);
my @TOPICS  = qw(a.b a.c d);

my (@messages, %member, @sessions, @starts, %ack_pending, %count);

sub any_of { return $_[ rand @_ ] }
sub some_of { my ($chance, @of) = @_; return grep { rand() < $chance } @of }
sub quoted { return join ', ', map { "'$_'" } @_ }

# ---- the model

sub row_has { my ($kind, $target, $user) = @_; return $member{"$kind:$target"}{$user} }

sub is_for
{
    my ($message, $user, $groups) = @_;
    my ($kind, @targets) = ($message->{kind}, @{ $message->{targets} });
    return 1 if $kind eq 'ALL';
    return scalar grep { $_ eq $user } @targets if $kind eq 'USER';
    my %by_token = map { $_ => 1 } @{ $groups->{$kind} // [] };
    return scalar grep { $by_token{$_} || row_has($kind, $_, $user) } @targets;
}

sub is_subscribed { my ($session, $message) = @_;
    return !$session->{topics} || grep { $_ eq $message->{topic} } @{ $session->{topics} } }

# Delivers the notification to the session. Each recipient of an open-ended audience must acknowledge.
sub deliver
{
    my ($session, $message) = @_;
    push @{ $session->{wanted} }, $message->{id};
    $session->{had}{ $message->{id} } = 1;
    $ack_pending{ $session->{user} }{ $message->{id} } //= 1 if $message->{ack} && $message->{open};
    return;
}

# Returns the user's pending notifications that this session has not received.
sub deliver_pending
{
    my ($session, $up_to) = @_;
    for my $message (grep { $_->{nth} <= $up_to } @messages)
    {
        deliver($session, $message) if $ack_pending{ $session->{user} }{ $message->{id} } && !$session->{had}{ $message->{id} }
          && is_for($message, @$session{qw(user groups)}) && is_subscribed($session, $message);
    }
    return;
}

# ---- actions, on the relay and in the model

sub groups_of_token
{
    return +{ map { my $kind = $_; rand() < 0.3 ? ($kind => [ some_of(0.4, @TARGETS) ]) : () } @KINDS };
}

sub connect_session
{
    my $user   = any_of(@USERS);
    my $groups = groups_of_token();
    my $topics = rand() < 0.3 ? [ some_of(0.6, @TOPICS), 'mark' ] : undef;
    my $start  = @starts && rand() < 0.5 ? any_of(@starts) : undef;
    my $name   = Encode::decode('UTF-8', $user);
    my $client = any_of(@relays)->client($name, groups => $groups, win => 10_000, topics => $topics, ($start ? (pos => $start->{pos}) : ()));
    my $session = { user => $user, groups => $groups, topics => $topics, client => $client, at => 0, wanted => [], had => {} };
    push @sessions, $session;
    my $up_to = $start ? $start->{nth} : @messages;
    deliver_pending($session, $up_to);
    for my $message (grep { $_->{nth} > $up_to } @messages)
    {
        deliver($session, $message) if is_for($message, $user, $groups) && is_subscribed($session, $message);
    }
    $count{$start ? 'resumed' : 'connected'}++;
    return;
}

sub change_member
{
    my ($kind, $target, $user) = (any_of(@KINDS), any_of(@TARGETS), any_of(@USERS));
    mark();    # recipients are determined at delivery, so earlier notifications must have arrived
    if (delete $member{"$kind:$target"}{$user})
    {
        $pg->safe_psql('postgres', "DELETE FROM clairon.member WHERE audience = '$kind' AND target = '$target' AND user_id = '$user'");
        $count{left}++;
        return;
    }
    $member{"$kind:$target"}{$user} = 1;
    $pg->safe_psql('postgres', "INSERT INTO clairon.member VALUES ('$kind', '$target', '$user')");
    mark();    # the relays have read the notification
    deliver_pending($_, scalar @messages) for grep { $_->{user} eq $user } @sessions;
    $count{joined}++;
    return;
}

sub send_message
{
    my $kind    = any_of(qw(USER TEAM TEAM CLUB CLUB ALL));
    my @targets = $kind eq 'ALL' ? () : $kind eq 'USER' ? (any_of(@USERS), some_of(0.2, @USERS)) : (any_of(@TARGETS), some_of(0.2, @TARGETS));
    my $ack     = rand() < 0.4;
    my $topic   = any_of(@TOPICS);
    my $id      = $pg->safe_psql('postgres', sprintf q{SELECT clairon.notify('%s', ARRAY[%s]::text[], '{}', topic => '%s', ack_required => %s)},
        $kind, quoted(@targets), $topic, $ack ? 'true' : 'false');
    my @named = $kind eq 'USER' ? @targets : map { keys %{ $member{"$kind:$_"} // {} } } @targets;
    push @messages, { id => $id, nth => @messages + 1, kind => $kind, targets => \@targets, ack => $ack, topic => $topic, open => !@named };
    if ($ack) { $ack_pending{$_}{$id} = 1 for @named }
    for my $session (@sessions)
    {
        deliver($session, $messages[-1]) if is_for($messages[-1], @$session{qw(user groups)}) && is_subscribed($session, $messages[-1]);
    }
    $count{$kind}++;
    return;
}

sub ack_some
{
    for my $session (@sessions)
    {
        my @ids = some_of(0.5, grep { ($ack_pending{ $session->{user} }{$_} // 0) == 1 } keys %{ $session->{had} });
        next unless @ids;
        $session->{client}->ack(@ids);
        $ack_pending{ $session->{user} }{$_} = 0 for @ids;
        Clairon::Test::wait_until('the acks are stored', sub {
            !grep { my $id = $_; grep { defined $store->execute_bytes('ZSCORE', $_, $id) } $store->keys("pending_list:$session->{user}") } @ids });
        $count{acked} += @ids;
    }
    return;
}

# Sends a marker to all users after all earlier notifications and returns its id.
sub mark
{
    my $id = $pg->safe_psql('postgres', q{SELECT clairon.notify('ALL', '{}', '{}', topic => 'mark')});
    for my $session (@sessions)
    {
        $session->{client}->run_until('the marker arrives', sub { grep { $_->{metadata}{id} eq $id } $session->{client}->notifications });
    }
    return $id;
}

# Returns the notifications of this round without the markers.
sub received_in_round { my ($session) = @_; my @all = $session->{client}->notifications;
    return map { $_->{metadata}{id} } grep { $_->{metadata}{topic} ne 'mark' } @all[ $session->{at} .. $#all ] }

sub name_of { my ($session) = @_;
    return join ' ', $session->{user}, $json->encode($session->{groups}), 'topics', map { $json->encode($_ // []) } $session->{topics} }

# A new connection receives the pending notifications of its user whose deliveries are reported.
sub wait_reported
{
    for my $user (sort keys %ack_pending)
    {
        my @ids = grep { $ack_pending{$user}{$_} } keys %{ $ack_pending{$user} };
        Clairon::Test::wait_until('the deliveries are reported', sub {
            !grep { my $id = $_; !grep { defined $store->execute_bytes('ZSCORE', $_, $id) } $store->keys("pending_list:$user") } @ids });
    }
    return;
}

my @wrong;
sub compare
{
    mark();
    for my $session (@sessions)
    {
        my %wanted = map { $_ => 1 } @{ $session->{wanted} };
        # Notifications fetched from the store may follow the marker.
        eval { $session->{client}->run_until('all expected notifications arrive', sub { my %has = map { $_ => 1 } received_in_round($session); !grep { !$has{$_} } keys %wanted }) };
    }
    mark();
    for my $session (@sessions)
    {
        my %rest;
        $rest{$_}++ for @{ $session->{wanted} };
        $rest{$_}-- for received_in_round($session);
        my %by_id = map { $_->{id} => $_ } @messages;
        push @wrong, map { my $m = $by_id{$_}; ($rest{$_} > 0 ? 'lacks' : 'should not have') . " $m->{kind} @{ $m->{targets} } ack=$m->{ack} topic=$m->{topic}: " . name_of($session) }
          grep { $rest{$_} } sort keys %rest;
        $count{received} += @{ $session->{wanted} };
        $session->{wanted} = [];
        $session->{at}     = () = $session->{client}->notifications;
    }
    wait_reported() unless @wrong;
    push @starts, { pos => $sessions[0]{client}->pos, nth => scalar @messages } if @sessions;
    return;
}

# Polls from a cursor, for notifications without ack_required.
sub poll
{
    my $start  = any_of(@starts) // return;
    my $user   = any_of(@USERS);
    my $groups = groups_of_token();
    my $token  = token(sub => Encode::decode('UTF-8', $user), groups => $groups);
    my ($at, $body) = ($start->{pos}, '');
    for my $turn (1 .. 100)    # until all notifications have been returned
    {
        push @wrong, "polls of $user never return an empty list: $body" if $turn == 100;
        my $url = any_of(@relays)->url("/v1/poll?wait=0&max=10000&pos=$at");
        my $response = $agent->get($url => { Authorization => "Bearer $token" })->result;
        $body .= $response->body;
        $at = $response->headers->header('Clairon-Pos');
        last if $response->code != 200;
    }
    my %by_id  = map { $_->{id} => $_ } @messages;
    my @wanted = map { $_->{id} } grep { $_->{nth} > $start->{nth} && !$_->{ack} && is_for($_, $user, $groups) } @messages;
    my @received = grep { defined } map { $by_id{ $_->{n}{metadata}{id} } } grep { $_->{t} eq 'msg' } map { $json->decode($_) } split /\n/, $body;
    my @got = map { $_->{id} } grep { !$_->{ack} } @received;
    push @wrong, "a poll of $user has @got instead of @wanted" if "@got" ne "@wanted";
    push @wrong, "a poll of $user returned another user's notification" if grep { !is_for($_, $user, $groups) } @received;
    $ack_pending{$user}{ $_->{id} } //= 1 for grep { $_->{ack} && $_->{open} } @received;
    $count{polled} += @got;
    return;
}

for (1 .. 4) { connect_session() }
compare();
# The run continues until each case has occurred.
sub missing { return grep { !$count{$_} } qw(USER TEAM CLUB ALL joined left acked resumed connected received polled) }
for (my $round = 1; $round <= $ROUNDS || missing() && $round <= 10 * $ROUNDS; $round++)
{
    for (1 .. 8)
    {
        my $random = rand();
        if    ($random < 0.6) { send_message() }
        elsif ($random < 0.8) { change_member() }
        else                { mark(); ack_some() if rand() < 0.5 }
    }
    compare();
    ack_some();
    # Clients connect and disconnect between rounds, when nothing is in transit.
    $_->{client}->close for splice @sessions, 0, @sessions > 9 ? 3 : rand(2);
    connect_session() for 1 .. 1 + rand 2;
    compare();
    poll();
    last if @wrong;
}
is_deeply(\@wrong, [], 'each session receives exactly the expected notifications, once');
note join ', ', map { "$_ $count{$_}" } sort keys %count;
is_deeply([ missing() ], [], 'each case of the model occurs');
is($_->metric('clairon_store_errors_total'), 0, 'the store returns no errors') for @relays;

done_testing();
