# Tests that clients who resume at random cursors of earlier notifications receive each later notification once and in commit
# order, while rows are committed, and relays, the store and the walsender are killed and paused: a relay that starts fills its
# replay buffer from all shards while new notifications arrive.
#
# CLAIRON_TEST_SEED=n repeats a run; CLAIRON_TEST_SHARDS=n sets the number of shards, CLAIRON_ROUNDS=n the number of rounds.
use strict;
use warnings;

BEGIN { $ENV{CLAIRON_TEST_SHARDS} //= 4 }
use Clairon::Test qw(amount token wait_until);
use HTTP::Tiny;
use JSON ();
use Test::More;
use Time::HiRes qw(time);

use constant { USERS => 8, SESSIONS => 6 };

my $SEED   = $ENV{CLAIRON_TEST_SEED} // int time;
my $ROUNDS = $ENV{CLAIRON_ROUNDS} // amount(12, 400);
srand $SEED;
note "seed $SEED, $ROUNDS rounds, $ENV{CLAIRON_TEST_SHARDS} shards";

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', sprintf q{
    CREATE TABLE stop (x int);
    CREATE TABLE rows (n int);
    INSERT INTO rows VALUES (0);
    CREATE FUNCTION target_of(n int) RETURNS text LANGUAGE sql IMMUTABLE RETURN CASE WHEN n %% 3 = 0 THEN 'all' ELSE 'u' || 1 + n / 3 * 7 %% %d END;
    CREATE PROCEDURE write_rows() LANGUAGE plpgsql AS $$
    DECLARE last int := 0;
    BEGIN
        WHILE NOT EXISTS (SELECT FROM stop) LOOP
            FOR i IN last + 1 .. last + 1 + floor(random() * 4)::int LOOP
                IF target_of(i) = 'all' THEN PERFORM clairon.notify('ALL', '{}', jsonb_build_object('n', i));
                ELSE PERFORM clairon.notify('USER', ARRAY[target_of(i)], jsonb_build_object('n', i)); END IF;
                last := i;
            END LOOP;
            UPDATE rows SET n = last;
            COMMIT;
            PERFORM pg_sleep(0.005);
        END LOOP;
    END $$}, USERS);
my $store  = Clairon::Test::store();
my @relays = map { Clairon::Test::relay($pg, $store) } 1 .. 2;
my $http   = HTTP::Tiny->new(timeout => 5);
my $json   = JSON->new->utf8;

sub target_of { my ($n) = @_; return $n % 3 == 0 ? 'all' : 'u' . (1 + int($n / 3) * 7 % USERS) }
sub expected
{
    my ($user, $after, $count) = @_;
    my ($n, @numbers) = $after;
    while (@numbers < $count) { $n++; push @numbers, $n if target_of($n) =~ /^(?:all|$user)$/ }
    return @numbers;
}

my %known = map { ("u$_" => []) } 1 .. USERS;    # [ cursor, number ] of received notifications
my %count = (sessions => 0, notifications => 0);
my @wrong;
sub check
{
    my ($how, $user, $after, @messages) = @_;
    my @numbers = map { $_->{n}{payload}{n} } grep { $_->{t} eq 'msg' } @messages;
    $after //= $numbers[0] - 1 if @numbers;
    my @expected = @numbers ? expected($user, $after, scalar @numbers) : ();
    $count{sessions}++;
    $count{notifications} += @numbers;
    push @wrong, "$how $user after $after: received @numbers, expected @expected" if "@numbers" ne "@expected";
    my @gaps = grep { $_->{t} eq 'gap' } @messages;
    push @wrong, "$how $user: a gap: " . $json->encode($gaps[0]) if @gaps;
    push @{ $known{$user} }, [ $_->{pos}, $_->{n}{payload}{n} ] for grep { $_->{t} eq 'msg' } @messages;
    return;
}

# Returns a random cursor of the user, which is often a recent one.
sub cursor
{
    my ($user) = @_;
    my $known = $known{$user};
    return (undef, undef) if !@$known;
    my $recent = @$known < 30 ? @$known : 30;
    return @{ rand() < 0.5 ? $known->[ rand @$known ] : $known->[ -1 - rand $recent ] };
}

sub poll
{
    my ($relay, $user) = @_;
    my ($pos, $n) = cursor($user);
    return if !defined $pos;
    for (1 .. 3)
    {
        my $response = $http->get($relay->url("/v1/poll?wait=0&max=50&pos=$pos"), { headers => { Authorization => 'Bearer ' . token(sub => $user) } });
        return if $response->{status} !~ /^20/;
        my @messages = map { $json->decode($_) } split /\n/, $response->{content};
        check('poll', $user, $n, @messages);
        my @numbers = map { $_->{n}{payload}{n} } grep { $_->{t} eq 'msg' } @messages;
        ($pos, $n) = ($response->{headers}{'clairon-pos'}, @numbers ? $numbers[-1] : $n);
    }
    return;
}

sub walsender { return eval { $pg->safe_psql('postgres', 'SELECT pid FROM pg_stat_replication LIMIT 1') } || 0 }
sub pause { my ($pid) = @_; return if !$pid || !kill STOP => $pid; Clairon::Test::Client::run_for(rand 0.7); kill CONT => $pid; return }
my %faults = (
    'a relay is killed'   => sub { my $relay = $relays[ rand @relays ]; $relay->kill9; $relay->start },
    'both are killed'     => sub { $_->kill9 for @relays; $_->start for @relays },
    'a relay is restarted' => sub { my $relay = $relays[ rand @relays ]; $relay->stop; $relay->start },
    'a relay is paused'   => sub { pause($relays[ rand @relays ]->pid) },
    'the store is paused' => sub { pause($store->pid) },
    'the store is killed' => sub { $store->kill9; $store->start },
    'the walsender is paused' => sub { pause(walsender()) },
    'the walsender is terminated' => sub { eval { $pg->safe_psql('postgres', 'SELECT pg_terminate_backend(pid) FROM pg_stat_replication') } },
);

my $client = $relays[0]->client('u1');
my $writer = IPC::Run::start([ 'psql', '-qAtX', '-d', $pg->connstr('postgres'), '-c', 'CALL write_rows()' ]);
$client->wait_notifications(5);
check('websocket', 'u1', undef, @{ $client->{messages} });
$client->close;
for my $round (1 .. $ROUNDS)
{
    if (rand() < 0.8) { my $name = (sort keys %faults)[ rand keys %faults ]; note "round $round: $name"; $faults{$name}->() }
    my @sessions;
    for (1 .. SESSIONS)
    {
        my ($relay, $user) = ($relays[ rand @relays ], 'u' . (1 + int rand USERS));
        if (rand() < 0.3) { poll($relay, $user); next }
        my ($pos, $n) = cursor($user);
        my $session = eval { $relay->client($user, pos => $pos) } or next;
        push @sessions, [ $session, $user, $n ];
        Clairon::Test::Client::run_for(rand 0.1);
    }
    Clairon::Test::Client::run_for(rand 0.3);
    for my $one (@sessions)
    {
        my ($session, $user, $n) = @$one;
        check('websocket', $user, $n, @{ $session->{messages} });
        $session->close if $session->{link};
    }
    last if @wrong;
}
$pg->safe_psql('postgres', 'INSERT INTO stop VALUES (1)');
$writer->finish;
my $last = $pg->safe_psql('postgres', 'SELECT n FROM rows');
$_->wait_ready for @relays;
for my $user (sort keys %known)
{
    my ($pos, $n) = cursor($user);
    next if !defined $pos;
    my @all = grep { target_of($_) =~ /^(?:all|$user)$/ } $n + 1 .. $last;
    my $session = $relays[ rand @relays ]->client($user, pos => $pos);
    $session->wait_notifications(scalar @all);
    check('websocket', $user, $n, @{ $session->{messages} });
}
note "$last rows, $count{sessions} sessions, $count{notifications} notifications";
is(join("\n", @wrong), '', 'each session receives each later notification once, in commit order, without a gap');
is(join('', map { $_->log_text =~ /msg="(shard is behind[^"]*)/g } @relays), '', 'no shard was too late for the order');
done_testing();
