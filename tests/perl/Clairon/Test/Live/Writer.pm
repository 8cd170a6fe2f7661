# Clairon::Test::Live::Writer: processes that commit random transactions for tests of live lists.
#
#   my $writers = Clairon::Test::Live::Writer->new($pg, users => [qw(u1 u2)], seed => 1);
#   $writers->fill;                          # the first rows
#   $writers->start(3);
#   $writers->finish;                        # all transactions, including prepared transactions, have ended
#
# tests/tap/rows/live_lists_against_model.pl creates the tables. A transaction may fail, because two writers may use the
# same rows, and servers crash. Such a transaction is rolled back.
package Clairon::Test::Live::Writer;

use strict;
use warnings;

use Clairon::Test qw(wait_until scratch);
use Digest::MD5 qw(md5_hex);
use POSIX ();

my $TASKS = 10;
my @TEAMS = qw(t1 t2 t3 t9);

sub new
{
    my ($class, $pg, %options) = @_;
    return bless { pg => $pg, %options, pids => [], starts => 0, number => 0, stop_file => scratch() . '/stop' }, $class;
}

sub pick { return $_[ rand @_ ] }

# Numbers are unique, so that each version of a row differs from all other versions.
sub number { my ($self) = @_; return ++$self->{number} }
sub body   { my ($self) = @_; return sprintf q{rpad('b%d.', 3000, 'x')}, $self->number }
sub owner  { my ($self) = @_; return rand() < 0.2 ? 'NULL' : "'" . pick(@{ $self->{users} }, 'u9') . "'" }
sub teams  { return rand() < 0.15 ? 'NULL' : "'{" . join(',', grep { rand() < 0.4 } @TEAMS) . "}'" }

sub fill
{
    my ($self) = @_;
    $self->{pg}->safe_psql('postgres', join ';', map { $self->insert_task($_) } 1 .. $TASKS);
    $self->{pg}->safe_psql('postgres', q{INSERT INTO clairon.member VALUES ('TEAM', 't1', 'u1'), ('TEAM', 't2', 'u2'), ('TEAM', 't1', 'u3')});
    return;
}

sub insert_task
{
    my ($self, $id) = @_;
    my $is_open = pick('true', 'false');
    return sprintf 'INSERT INTO tasks VALUES (%d, %s, %s, %s, %d) ON CONFLICT (id) DO UPDATE SET n = excluded.n, is_open = excluded.is_open',
      $id, $self->owner, teams(), $is_open, $self->number;
}

sub update_task
{
    my ($self, $id) = @_;
    my $n   = 'n = ' . $self->number;
    my $to  = 1 + int rand $TASKS;
    my $set = pick("$n, owner = " . $self->owner, "$n, teams = " . teams(), "$n, is_open = NOT is_open", 'is_open = NOT is_open', $n, $n,
        "$n, id = $to, owner = " . $self->owner . ', teams = ' . teams());
    return $set =~ /\bid = / ? "UPDATE tasks SET $set WHERE id = $id AND NOT EXISTS (SELECT FROM tasks WHERE id = $to)" : "UPDATE tasks SET $set WHERE id = $id";
}

sub change_doc
{
    my ($self) = @_;
    my ($part, $id, $to) = map { 1 + int rand $_ } 2, 3, 3;
    my $where = "WHERE part = $part AND id = $id";
    return pick(
        sprintf("INSERT INTO docs VALUES (%d, %d, %d, %s) ON CONFLICT (part, id) DO UPDATE SET n = excluded.n", $part, $id, $self->number, $self->body),
        sprintf("UPDATE docs SET n = %d $where", $self->number),
        sprintf("UPDATE docs SET body = %s $where", $self->body),
        sprintf("UPDATE docs SET id = %d, n = %d $where AND NOT EXISTS (SELECT FROM docs WHERE part = $part AND id = $to)", $to, $self->number),
        "DELETE FROM docs $where");
}

sub change_member
{
    my ($self) = @_;
    my ($team, $user) = (pick(@TEAMS), pick(@{ $self->{users} }));
    return rand() < 0.5 ? "INSERT INTO clairon.member VALUES ('TEAM', '$team', '$user') ON CONFLICT DO NOTHING"
      : "DELETE FROM clairon.member WHERE audience = 'TEAM' AND target = '$team' AND user_id = '$user'";
}

sub change_table
{
    my ($self) = @_;
    return pick('ALTER TABLE tasks ADD COLUMN IF NOT EXISTS remark text', 'ALTER TABLE tasks ADD COLUMN IF NOT EXISTS added int DEFAULT 7',
        'ALTER TABLE tasks DROP COLUMN IF EXISTS remark', 'ALTER TABLE tasks DROP COLUMN IF EXISTS added',
        'ALTER TABLE tasks ALTER n TYPE ' . pick(qw(int bigint)), 'ALTER TABLE docs ALTER n TYPE ' . pick(qw(int bigint)));
}

sub statement
{
    my ($self) = @_;
    my $id  = 1 + int rand $TASKS;
    my $die = rand;
    return $self->insert_task($id)                       if $die < 0.2;
    return "DELETE FROM tasks WHERE id = $id"            if $die < 0.3;
    return $self->change_doc                             if $die < 0.45;
    return $self->change_member                          if $die < 0.53;
    return sprintf 'UPDATE tasks SET n = %d + id WHERE id %% 3 = %d', $self->number * 100, rand 3 if $die < 0.57;
    return 'TRUNCATE ' . pick(qw(tasks docs))            if $die < 0.58;
    return $self->change_table                           if $die < 0.59;
    return $self->update_task($id);
}

sub transaction
{
    my ($self) = @_;
    my @statements = map { $self->statement } 1 .. pick(1, 1, 2, 3, 6);
    push @statements, 'SAVEPOINT s', $self->statement, pick('ROLLBACK TO s', 'RELEASE s'), $self->statement if rand() < 0.2;
    splice @statements, rand @statements, 0, sprintf 'SELECT pg_sleep(%.3f)', rand 0.03 if rand() < 0.5;
    my $name = 'g' . $self->number;
    my @end  = pick((['COMMIT']) x 8, ['ROLLBACK'], [ "PREPARE TRANSACTION '$name'", "COMMIT PREPARED '$name'" ],
        [ "PREPARE TRANSACTION '$name'", "ROLLBACK PREPARED '$name'" ]);
    return join '; ', q{SET lock_timeout = '500ms'}, 'BEGIN', @statements, @{ $end[0] };
}

sub write_until_stopped
{
    my ($self, $number) = @_;
    srand hex substr md5_hex("$self->{seed} writer $number"), 0, 8;
    my $parent = getppid;
    while (!-e $self->{stop_file} && getppid == $parent)    # a test that dies leaves no writer behind
    {
        eval { $self->{pg}->psql('postgres', $self->transaction) };
        select undef, undef, undef, rand 0.04;
    }
    return;
}

sub start
{
    my ($self, $count) = @_;
    unlink $self->{stop_file};
    for (1 .. $count)
    {
        my $number = ++$self->{starts};
        $self->{number} = 1_000_000 * $number;
        my $pid = fork // die "could not fork: $!";
        if ($pid == 0)
        {
            open STDERR, '>', '/dev/null' or POSIX::_exit(1);
            $self->write_until_stopped($number);
            POSIX::_exit(0);
        }
        push @{ $self->{pids} }, $pid;
    }
    return;
}

sub finish
{
    my ($self) = @_;
    open my $file, '>', $self->{stop_file} or die "could not write $self->{stop_file}: $!";
    close $file;
    waitpid $_, 0 for splice @{ $self->{pids} };
    my $pg = $self->{pg};
    wait_until('no transaction remains', sub { $pg->safe_psql('postgres',
        q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND xact_start IS NOT NULL AND backend_xid IS NOT NULL}) == 0 });
    $pg->safe_psql('postgres', "ROLLBACK PREPARED '$_'") for split /\n/, $pg->safe_psql('postgres', 'SELECT gid FROM pg_prepared_xacts');
    return;
}

1;
